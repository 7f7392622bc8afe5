// What arrives over TCP from others than tasks of the cluster: silence, garbage, sizes that are lies.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>

#include "transport_tools.hpp"

namespace tmflow::runtime {
namespace {

constexpr int kMutants = kIsSanitized ? 500 : 10'000;
constexpr long kMostMemory = kIsSanitized ? 64 << 20 : 8 << 20;

long resident_bytes() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A few bytes are changed, removed, repeated or added, or the end is missing.
std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  for (std::size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(bytes.size()), size = 1 + below(8);
    switch (below(6)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.erase(at, size);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 3:
        bytes.insert(at, size, static_cast<char>(below(256)));
        break;
      case 4:
        bytes.replace(at, std::min(size, bytes.size() - at), size, '\xff');
        break;
      default:
        bytes[at] = static_cast<char>(below(256));
    }
  }
  return bytes;
}

std::string hello(const std::string& greeting = "protocol 1; test", const std::string& secret = "secret") {
  tcp::Head head = RawEnd::head(tcp::Kind::kHello, 0);
  head.text = static_cast<std::uint32_t>(greeting.size());
  head.header = secret.size();
  return RawEnd::bytes(head) + greeting + secret;
}

// A server that still answers at the end of each test.
class Strangers : public testing::Test {
 protected:
  void TearDown() override {
    const auto client = tcp_transport({"test", "secret"});
    EXPECT_EQ(call(*client->connect(at(server_.port)), "x").header, "x");
  }

  Task server_{echo};
};

TEST_F(Strangers, ThoseWhoAreSilentAreSentAwayInTime) {
  const auto start = tcp::Clock::now();
  RawEnd silent = RawEnd::connected(server_.port), slow = RawEnd::connected(server_.port);
  slow.send(hello().substr(0, 50));
  EXPECT_TRUE(silent.is_closed());  // which fails if that does not happen soon
  EXPECT_TRUE(slow.is_closed());
  EXPECT_GE(tcp::Clock::now() - start, tcp::kPatience);
}

TEST_F(Strangers, ThoseWhoKnowNoSecretLearnNothing) {
  for (const std::string secret : {"wrong!", "secre", "secrets", ""}) {
    RawEnd other = RawEnd::connected(server_.port);
    other.send(hello("protocol 1; test", secret));
    const tcp::Head answer = other.receive_head();
    EXPECT_EQ(answer.code, kUnauthenticated);
    EXPECT_EQ(answer.text + answer.header + answer.body, 0u);
    EXPECT_TRUE(other.is_closed());
  }
}

TEST_F(Strangers, ThoseWhoSendNoGreetingAreSentAwayAtOnce) {
  tcp::Head long_secret = RawEnd::head(tcp::Kind::kHello, 0), long_greeting = long_secret;
  long_secret.header = tcp::kMostHello + 1;
  long_greeting.text = ~0u;
  const tcp::Head request = RawEnd::head(tcp::Kind::kRequest, 1);
  for (const std::string& sent :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"), std::string(100, '\0'),
        RawEnd::bytes(long_secret), RawEnd::bytes(long_greeting), RawEnd::bytes(request)}) {
    RawEnd other = RawEnd::connected(server_.port);
    other.send(sent);
    EXPECT_TRUE(other.is_closed());
  }
}

TEST_F(Strangers, WhatIsNoCallEndsTheConnection) {
  using tcp::Kind;
  const auto changed = [](Kind kind, auto change) {
    tcp::Head head = RawEnd::head(kind, 2);
    change(head);
    return head;
  };
  const tcp::Head heads[] = {
      changed(Kind::kRequest, [](tcp::Head& head) { head.body = 1; }),
      changed(Kind::kRequest, [](tcp::Head& head) { head.text = 1; }),
      changed(Kind::kRequest, [](tcp::Head& head) { head.header = tcp::kMostHeader + 1; }),
      changed(Kind::kRequest, [](tcp::Head& head) { head.magic = 1; }),
      changed(Kind::kRequest, [](tcp::Head& head) { head.unused = 1; }),
      changed(Kind::kRequest,
              [](tcp::Head& head) { head.call = 1; }),  // the number of a call that is not answered
      changed(Kind::kCancel, [](tcp::Head& head) { head.header = 1; }),
      changed(Kind::kHello, [](tcp::Head&) {}),
      changed(Kind::kAnswer, [](tcp::Head&) {}),
      changed(Kind{9}, [](tcp::Head&) {})};
  Held held;
  Task server([&](std::shared_ptr<Served> call) { held.add(std::move(call)); });
  for (const tcp::Head& head : heads) {
    RawEnd caller = RawEnd::greeted(server.port);
    caller.send_frame(RawEnd::head(Kind::kCancel, 77));  // allowed: its answer may be on its way
    caller.send_frame(RawEnd::head(Kind::kRequest, 1));
    const auto first = held.take(1);
    caller.send_frame(head);
    EXPECT_TRUE(caller.is_closed());
  }
}

TEST_F(Strangers, ASizeThatIsALieTakesNoMemory) {
  const long before = resident_bytes();
  std::vector<RawEnd> callers;
  for (int i = 0; i < 20; ++i) {
    tcp::Head head = RawEnd::head(tcp::Kind::kRequest, 1);
    head.header = tcp::kMostHeader - 10;
    callers.push_back(RawEnd::greeted(server_.port));
    callers.back().send_frame(head, "ten bytes.");
  }
  TearDown();  // another caller is served meanwhile
  for (RawEnd& caller : callers) caller.close_sending();
  for (RawEnd& caller : callers) EXPECT_TRUE(caller.is_closed());
  EXPECT_LT(resident_bytes() - before, kMostMemory);
}

TEST_F(Strangers, MutatedCallsDoNoHarm) {
  const std::string greeting = hello();
  const std::string calls = RawEnd::bytes(RawEnd::head(tcp::Kind::kRequest, 1), "request") +
                            RawEnd::bytes(RawEnd::head(tcp::Kind::kCancel, 1)) +
                            RawEnd::bytes(RawEnd::head(tcp::Kind::kRequest, 2), std::string(300, 'x'));
  std::mt19937 random(1);
  long before = 0;
  for (int i = 0; i < kMutants; ++i) {
    if (i == kMutants / 10)
      before = resident_bytes();  // by now all that is kept for reuse has been allocated
    RawEnd other = RawEnd::connected(server_.port);
    other.send(i % 4 == 0 ? mutated(greeting + calls, random) : greeting + mutated(calls, random));
    other.close_sending();
    while (!other.receive(1000).empty()) continue;
  }
  EXPECT_LT(resident_bytes() - before, kMostMemory);
}

TEST(StrangersAsServers, MutatedAnswersEndTheCall) {
  RawTask server;
  const auto client = tcp_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port()));
  std::mt19937 random(2);
  std::string body;
  for (int i = 0; i < kMutants / 5; ++i) {
    std::promise<void> ended;
    const auto number = peer->call(
        1, "x",
        [&](const std::string&, std::size_t size) {
          body.assign(std::min<std::size_t>(size, 1000), '.');
          return size <= body.size() ? body.data() : nullptr;
        },
        {}, [&](Outcome, std::string) { ended.set_value(); });
    RawEnd connection = server.welcome();
    const std::string answer = RawEnd::bytes(RawEnd::head(tcp::Kind::kAnswer, number), "header", "body");
    connection.send(mutated(answer + answer, random));
    connection.close_sending();
    get(ended.get_future());
    while (!connection.receive(1000).empty()) continue;
  }
}

TEST(StrangersAsServers, OneThatIsNoTaskIsUnavailable) {
  RawTask server;
  const auto client = tcp_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port()));
  const std::string start_of_text = "cannot connect to " + at(server.port()) + ": ";
  Pending pending = start(*peer, "x");
  server.accept().send("220 mail.example.org ESMTP, at your service today\r\n");
  Answer answer = get(std::move(pending.answer));
  EXPECT_EQ(answer.outcome.code, kUnavailable);
  EXPECT_EQ(answer.outcome.text.find(start_of_text), 0u);

  pending = start(*peer, "x");
  {
    RawEnd impostor = server.accept();
    impostor.receive(hello().size());
    impostor.send(hello("protocol 1; test", "guess"));
    answer = get(std::move(pending.answer));
  }
  EXPECT_EQ(answer.outcome.code, kUnauthenticated);
  EXPECT_EQ(answer.outcome.text, start_of_text + "it has another secret");
}

TEST(StrangersAsServers, AnAnswerThatNobodyExpectsEndsTheConnection) {
  RawTask server;
  const auto client = tcp_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port()));
  Pending pending = start(*peer, "x");
  RawEnd connection = server.welcome();
  connection.send_frame(RawEnd::head(tcp::Kind::kAnswer, pending.number + 1), "", "body");
  const Answer answer = get(std::move(pending.answer));
  EXPECT_EQ(answer.outcome.code, kUnavailable);
  EXPECT_EQ(answer.outcome.text,
            "the connection to " + at(server.port()) + " was lost: it has answered what it was not asked");
}

}  // namespace
}  // namespace tmflow::runtime
