// What a test of a transport over TCP sees only with a hand-written other end.
#include <atomic>

#include "transport_tools.hpp"

namespace tmflow::runtime {
namespace {

TEST(TcpTransport, AnswersFollowEachOtherThoughTheSocketTakesThemInParts) {
  constexpr std::size_t kBody = 16'000'000, kSmall = 100;
  Held held;
  Task server([&](std::shared_ptr<Served> call) { held.add(std::move(call)); });
  RawEnd caller = RawEnd::greeted(server.port);
  for (std::size_t i = 0; i <= kSmall; ++i) caller.send_frame(RawEnd::head(tcp::Kind::kRequest, i));
  const auto calls = held.take(kSmall + 1);
  const std::string body = pattern(kBody);
  calls[0]->answer({}, {{}, body, {}});
  std::string expected = RawEnd::bytes(RawEnd::head(tcp::Kind::kAnswer, 0), "", body), received;
  for (std::size_t i = 1; i <= kSmall; ++i) {
    received +=
        caller.receive(kBody / kSmall / 2);  // there is room in the socket, but the body is not sent yet
    calls[i]->answer({}, {"small", {}, {}});
    expected += RawEnd::bytes(RawEnd::head(tcp::Kind::kAnswer, i), "small");
  }
  received += caller.receive(expected.size() - received.size());
  EXPECT_TRUE(received == expected);
}

TEST(TcpTransport, NothingIsWrittenToThePlaceAfterACancellation) {
  RawTask server;
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port()));
  std::string body;
  std::promise<void> placed;
  std::promise<Outcome> ended;
  const auto number =
      peer->call(1, "x", {[&](const std::string&, std::size_t size) {
                   body.assign(size, '.');
                   placed.set_value();
                   return body.data();
                 }},
                 {}, [&](Outcome outcome, std::string) { ended.set_value(std::move(outcome)); });
  RawEnd connection = server.welcome();
  connection.receive(sizeof(tcp::Head) + 1);
  const std::string bytes = RawEnd::bytes(RawEnd::head(tcp::Kind::kAnswer, number), "", pattern(200'000));
  connection.send(std::string_view(bytes).substr(0, 100'000));
  get(placed.get_future());
  peer->cancel(number);
  EXPECT_EQ(get(ended.get_future()).code, kCancelled);  // though the server sends nothing more
  body.assign(body.size(), '-');
  Pending next = start(*peer, "y");
  connection.send(std::string_view(bytes).substr(100'000));
  connection.receive(sizeof(tcp::Head) + 1);
  connection.send_frame(RawEnd::head(tcp::Kind::kAnswer, next.number), "y");
  EXPECT_EQ(get(std::move(next.answer)).header, "y");
  EXPECT_EQ(body.find_first_not_of('-'), std::string::npos);
}

TEST(TcpTransport, ACallEndsIfItsServerIsLostWithinTheBody) {
  RawTask server;
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port()));
  Pending pending = start(*peer, "x");
  {
    RawEnd connection = server.welcome();
    const std::string bytes =
        RawEnd::bytes(RawEnd::head(tcp::Kind::kAnswer, pending.number), "", pattern(200'000));
    connection.send(std::string_view(bytes).substr(0, 100'000));
  }
  const Answer answer = get(std::move(pending.answer));
  EXPECT_EQ(answer.outcome.code, kUnavailable);
  EXPECT_EQ(answer.outcome.text.find("the connection to " + at(server.port()) + " was lost: "), 0u);
}

TEST(TcpTransport, ACallerThatDoesNotReadIsServedNoFurther) {
  constexpr std::size_t kBody = 4 << 20, kCalls = kIsSanitized ? 60 : 150;
  constexpr std::size_t kMost =
      (64 << 20) / kBody + 24;  // what is queued, and what the sockets' buffers hold
  const auto body = std::make_shared<const std::string>(kBody, 'x');
  std::atomic<std::size_t> served = 0;
  Task server([&](const std::shared_ptr<Served>& call) {
    ++served;
    call->answer({}, {{}, *body, body});
  });
  RawEnd caller = RawEnd::greeted(server.port);
  for (std::size_t i = 1; i <= kCalls; ++i) caller.send_frame(RawEnd::head(tcp::Kind::kRequest, i));
  for (std::size_t read = 0; read < kCalls; ++read) {
    EXPECT_LE(served, read + kMost);
    EXPECT_EQ(caller.receive(sizeof(tcp::Head) + kBody).size(), sizeof(tcp::Head) + kBody);
  }
  EXPECT_EQ(served, kCalls);
}

TEST(TcpTransport, ACallerThatReadsNothingForTooLongIsLost) {
  const auto body = std::make_shared<const std::string>(64 << 20, 'x');
  std::promise<void> lost;
  Held held;
  Task server(
      [&](std::shared_ptr<Served> call) {
        if (call->method() == 1) return call->answer({}, {{}, *body, body});
        call->on_cancel([&] { lost.set_value(); });
        held.add(std::move(call));
      },
      0, {"test", "secret", 500ms});
  RawEnd caller = RawEnd::greeted(server.port);
  tcp::Head answered = RawEnd::head(tcp::Kind::kRequest, 2);
  answered.method = 1;
  caller.send_frame(RawEnd::head(tcp::Kind::kRequest, 1));
  caller.send_frame(answered);
  get(lost.get_future());
}

}  // namespace
}  // namespace tmflow::runtime
