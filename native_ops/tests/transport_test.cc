// Calls between tasks, over TCP or by HPX: answers, bodies, errors, cancellation, lost connections, the end.
#include <atomic>
#include <deque>
#include <thread>

#include "transport_tools.hpp"

namespace tmflow::runtime {
namespace {

TEST(Transport, TasksCallEachOther) {
  Task a(echo), b([](const std::shared_ptr<Served>& call) {
    call->answer({5, "no " + call->request()}, {std::to_string(call->method()), "dropped", {}});
  });
  const auto to_a = b.transport->connect(at(a.port)), to_b = a.transport->connect(at(b.port));
  EXPECT_EQ(call(*to_a, "question").header, "question");
  const Answer refused = call(*to_b, "question", {}, 7);
  EXPECT_EQ(refused.outcome.code, 5);
  EXPECT_EQ(refused.outcome.text, "no question");
  EXPECT_EQ(refused.header, "7");
  EXPECT_EQ(refused.body, "");
}

TEST(Transport, HostsMayBeNamesAndAddressesOfBothFamilies) {
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]"}) {
    Handler service(echo);
    const auto server = new_transport({}), client = new_transport({});
    int port = 0;
    try {
      port = server->listen(host + ":0", service);
    } catch (const std::runtime_error&) {
      EXPECT_EQ(host, "[::1]");  // a machine may have no IPv6
      continue;
    }
    EXPECT_EQ(call(*client->connect(host + ":" + std::to_string(port)), "x").header, "x");
  }
}

TEST(Transport, BodiesOfAllSizesArrive) {
  Task server(answer_with_body);
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  for (const std::size_t size : {0, 1, 4, 65495, 65496, 65497, 4 << 20, 64 << 20}) {
    const Answer answer = call(*peer, std::to_string(size));
    EXPECT_EQ(answer.outcome.code, 0) << answer.outcome.text;
    EXPECT_EQ(answer.header, std::to_string(size));
    EXPECT_TRUE(answer.body == pattern(size)) << size;
  }
}

TEST(Transport, AHeaderMayBeLong) {
  Task server(echo);
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  const std::string request = pattern(5'000'001);
  for (int i = 0; i < 20; ++i) {  // in all more than may wait to be sent
    EXPECT_TRUE(call(*peer, request).header == request);
  }
}

TEST(Transport, ThreadsCallAtTheSameTimeAndAreAnsweredInAnyOrder) {
  constexpr int kRounds = kIsSanitized ? 16 : 48;
  // The latest call is answered first, on another thread.
  std::mutex mutex;
  std::condition_variable added;
  std::deque<std::shared_ptr<Served>> calls;
  bool is_over = false;
  Task server([&](std::shared_ptr<Served> call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
    added.notify_one();
  });
  std::thread answers([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      added.wait(lock, [&] { return is_over || !calls.empty(); });
      if (calls.empty()) return;
      const auto call = std::move(calls.back());
      calls.pop_back();
      lock.unlock();
      answer_with_body(call);
    }
  });
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRounds; ++i) {
        std::vector<std::pair<std::size_t, Pending>> pending;
        for (const std::size_t size :
             {thread + 1, 1000 * thread + i, i % 8 == thread ? 3'000'000 : 100'000 + i}) {
          pending.emplace_back(size, start(*peer, std::to_string(size)));
        }
        for (auto& [size, one] : pending) right += get(std::move(one.answer)).body == pattern(size);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * kRounds * 3);
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  added.notify_one();
  answers.join();
}

TEST(Transport, ABodyWithoutAPlaceEndsTheCall) {
  Task server(answer_with_body);
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  for (const Place& place : {Place(), Place([](const std::string&, std::size_t) { return nullptr; })}) {
    std::promise<Outcome> ended;
    peer->call(1, "300000", place, {}, [&](Outcome outcome, std::string) { ended.set_value(outcome); });
    const Outcome outcome = get(ended.get_future());
    EXPECT_EQ(outcome.code, kInvalid);
    EXPECT_EQ(outcome.text,
              "the answer of " + at(server.port) + " has 300000 bytes, for which there is no place");
  }
  EXPECT_EQ(call(*peer, "5").body, pattern(5));
}

TEST(Transport, ADroppedCallIsCancelled) {
  Task server([](const std::shared_ptr<Served>&) {});
  const auto client = new_transport({"test", "secret"});
  const Answer answer = call(*client->connect(at(server.port)), "x");
  EXPECT_EQ(answer.outcome.code, kCancelled);
  EXPECT_EQ(answer.outcome.text, "the call was dropped without an answer");
}

TEST(Transport, ALateCallEndsAndIsCancelledAtTheServer) {
  std::promise<void> cancelled;
  Held held;
  Task server([&](std::shared_ptr<Served> call) {
    call->on_cancel([&] { cancelled.set_value(); });
    held.add(std::move(call));
  });
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  Pending first = start(*peer, "x", {std::chrono::milliseconds::max()});
  echo(held.take(1)[0]);
  EXPECT_EQ(get(std::move(first.answer)).header, "x");  // so there is a connection
  const Answer answer = call(*peer, "y", {20ms});
  EXPECT_EQ(answer.outcome.code, kDeadlineExceeded);
  EXPECT_EQ(answer.outcome.text, at(server.port) + " has not answered within 20 ms");
  get(cancelled.get_future());
  // What it answers now is skipped, and the connection is as good as before.
  const auto late = held.take(1);
  late[0]->answer({}, {"late", "body", {}});
  Pending next = start(*peer, "z");
  echo(held.take(1)[0]);
  EXPECT_EQ(get(std::move(next.answer)).header, "z");
}

TEST(Transport, ACancelledCallEndsAndTheServerIsTold) {
  Held held;
  Task server([&](std::shared_ptr<Served> call) { held.add(std::move(call)); });
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  Pending cancelled = start(*peer, "x"), other = start(*peer, "y");
  const auto calls = held.take(2);
  std::promise<void> first, second;
  calls[0]->on_cancel([&] { first.set_value(); });
  calls[1]->on_cancel([] { FAIL() << "this call was not cancelled"; });
  peer->cancel(cancelled.number);
  EXPECT_EQ(get(std::move(cancelled.answer)).outcome.code, kCancelled);
  get(first.get_future());
  calls[0]->on_cancel([&] { second.set_value(); });  // at once
  get(second.get_future());
  calls[0]->answer({}, {"ignored", {}, {}});
  calls[0]->on_cancel([] { FAIL() << "this call was answered"; });
  echo(calls[1]);
  EXPECT_EQ(get(std::move(other.answer)).header, "y");
  peer->cancel(cancelled.number);  // it is done
  peer->cancel(other.number);
  peer->cancel(1000);  // there is none
}

TEST(Transport, ACallIsCancelledBeforeThereIsAConnection) {
  const int port = Task(echo).port;  // nobody listens there any more
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(port));
  Pending pending = start(*peer, "x", {0ms, true});
  peer->cancel(pending.number);
  EXPECT_EQ(get(std::move(pending.answer)).outcome.code, kCancelled);
}

TEST(Transport, ALostCallerCancelsItsCalls) {
  std::promise<void> cancelled;
  Held held;
  Task server([&](std::shared_ptr<Served> call) {
    call->on_cancel([&] { cancelled.set_value(); });
    held.add(std::move(call));
  });
  auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(server.port));
  Pending pending = start(*peer, "x");
  const auto calls = held.take(1);
  client.reset();
  EXPECT_EQ(get(std::move(pending.answer)).outcome.code, kCancelled);
  get(cancelled.get_future());
  calls[0]->answer({}, {"nobody receives it", {}, {}});
}

TEST(Transport, ATaskThatIsStartedAgainIsConnectedToByTheNextCall) {
  Held held;
  auto server = std::make_unique<Task>([&](std::shared_ptr<Served> call) { held.add(std::move(call)); });
  const int port = server->port;
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(port));
  Pending pending = start(*peer, "x");
  const auto calls = held.take(1);
  server.reset();
  EXPECT_EQ(get(std::move(pending.answer)).outcome.code, kUnavailable);
  const Answer refused = call(*peer, "x");
  EXPECT_EQ(refused.outcome.code, kUnavailable);
  EXPECT_EQ(refused.outcome.text, "cannot connect to " + at(port) + ": Connection refused");
  Task again(echo, port);
  EXPECT_EQ(call(*peer, "y").header, "y");
}

TEST(Transport, ACallMayWaitUntilSomebodyListens) {
  const int port = Task(echo).port;
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(at(port));
  EXPECT_EQ(call(*peer, "x").outcome.code, kUnavailable);
  const Answer late = call(*peer, "x", {30ms, true});
  EXPECT_EQ(late.outcome.code, kDeadlineExceeded);
  EXPECT_EQ(late.outcome.text, at(port) + " has not answered within 30 ms: cannot connect to " + at(port) +
                                   ": Connection refused");
  Pending waiting = start(*peer, "x", {0ms, true});
  EXPECT_EQ(call(*peer, "y").outcome.code, kUnavailable);  // so it has tried to connect
  Task server(echo, port);
  EXPECT_EQ(get(std::move(waiting.answer)).header, "x");
}

TEST(Transport, AnotherSecretIsRefused) {
  Task server(echo);
  for (const std::string secret : {"secreT", "secre", "secrets", ""}) {
    const auto client = new_transport({"test", secret});
    const Answer answer = call(*client->connect(at(server.port)), "x", {0ms, true});
    EXPECT_EQ(answer.outcome.code, kUnauthenticated);
    EXPECT_EQ(answer.outcome.text, "cannot connect to " + at(server.port) + ": it has another secret");
  }
}

TEST(Transport, AnotherGreetingIsRefusedWithBoth) {
  Task server(echo, 0, {"TensorFlow 2.15", "secret"});
  const auto client = new_transport({"TensorFlow 2.16", "secret"});
  const Answer answer = call(*client->connect(at(server.port)), "x", {0ms, true});
  EXPECT_EQ(answer.outcome.code, kInvalid);
  for (const std::string& part :
       {"cannot connect to " + at(server.port) + ": it is 'protocol 1; ",
        std::string("TensorFlow 2.15' and this task "), std::string("TensorFlow 2.16'")}) {
    EXPECT_NE(answer.outcome.text.find(part), std::string::npos) << answer.outcome.text;
  }
  EXPECT_THROW(new_transport({std::string(5000, 'x'), ""}), std::runtime_error);
}

TEST(Transport, APortInUseIsAnError) {
  Task server(echo);
  const auto other = new_transport({});
  try {
    other->listen(at(server.port), server.service);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), "cannot listen at " + at(server.port) + ": Address already in use");
  }
}

TEST(Transport, AnAddressThatCannotBeUsedIsAnError) {
  const auto transport = new_transport({});
  Handler service(echo);
  const std::string rule = "an address must be host:port, or [host]:port for IPv6";
  for (const std::string address :
       {"", "host", ":1", "host:", "host:x", "host:65536", "::1:80", "host:1:2", "[]:1"}) {
    const Answer answer = call(*transport->connect(address), "x", {0ms, true});
    EXPECT_EQ(answer.outcome.code, kInvalid);
    EXPECT_EQ(answer.outcome.text, "cannot connect to " + address + ": " + rule);
    EXPECT_THROW(transport->listen(address, service), std::runtime_error) << address;
  }
  const std::string unknown = std::string(300, 'x') + ":1";  // too long for any name
  const Answer answer = call(*transport->connect(unknown), "x");
  EXPECT_EQ(answer.outcome.code, kUnavailable);
  EXPECT_NE(answer.outcome.text.find(": the name of the host cannot be resolved: "), std::string::npos)
      << answer.outcome.text;
}

TEST(Transport, TwoTasksThatOnlySendDoNotWaitForEachOther) {
  constexpr int kRounds = kIsSanitized ? 10 : 40;
  Task a(answer_with_body), b(answer_with_body);
  const auto to_a = b.transport->connect(at(a.port)), to_b = a.transport->connect(at(b.port));
  std::vector<std::pair<std::size_t, Pending>> pending;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t size :
         {4'000'000, 1, 20, 300, 4000}) {  // small answers must not overtake parts of large ones
      for (Peer* const peer : {to_a.get(), to_b.get()})
        pending.emplace_back(size, start(*peer, std::to_string(size)));
    }
  }
  const std::string large = pattern(4'000'000);
  for (auto& [size, one] : pending) {
    EXPECT_TRUE(get(std::move(one.answer)).body == (size == large.size() ? large : pattern(size)));
  }
}

TEST(Transport, StopEndsEverything) {
  Held held;
  Task a([&](std::shared_ptr<Served> call) { held.add(std::move(call)); }), b(echo);
  const auto to_a = b.transport->connect(at(a.port)), to_b = b.transport->connect(at(b.port));
  std::atomic<int> done = 0;
  const auto count = [&](Outcome outcome, std::string) {
    ++done;
    EXPECT_EQ(outcome.code, kCancelled);
  };
  const auto nowhere = b.transport->connect("127.0.0.1:1");
  for (int i = 0; i < 100; ++i) {
    to_a->call(1, "x", {}, {10min}, count);
    nowhere->call(1, "x", {}, {10min, true}, count);
  }
  const auto calls = held.take(100);
  EXPECT_EQ(call(*to_b, "x").header, "x");
  std::thread other([&] { b.transport->stop(); });
  b.transport->stop();
  EXPECT_EQ(done, 200);
  other.join();
  b.transport->stop();
  EXPECT_EQ(call(*to_a, "x").outcome.code, kCancelled);  // ended at once, by this thread
  EXPECT_EQ(call(*b.transport->connect("127.0.0.1:2"), "x").outcome.code, kCancelled);
  EXPECT_THROW(b.transport->listen("127.0.0.1:0", b.service), std::runtime_error);
  a.transport->stop();
  for (const auto& one : calls) one->answer({}, {"nobody receives it", {}, {}});
}

TEST(Transport, StopEndsBodiesThatAreOnTheirWay) {
  const auto body = std::make_shared<const std::string>(pattern(20'000'000));
  for (int i = 0; i < 20; ++i) {
    std::promise<void> answered;
    Task server([&](const std::shared_ptr<Served>& call) {
      call->answer({}, {{}, *body, body});
      answered.set_value();
    });
    const auto client = new_transport({"test", "secret"});
    const auto peer = client->connect(at(server.port));
    Pending pending = start(*peer, "x");
    get(answered.get_future());
    (i % 2 == 0 ? client : server.transport)->stop();
    const Answer answer = get(std::move(pending.answer));
    EXPECT_TRUE(answer.outcome.code == (i % 2 == 0 ? kCancelled : kUnavailable) || answer.body == *body);
  }
}

TEST(Transport, CallbacksMayCallAndConnect) {
  // Each call goes on to the other task until it has been passed on 20 times.
  std::vector<std::unique_ptr<Task>> tasks;
  const auto pass_on = [&](int from) {
    return [&, from](const std::shared_ptr<Served>& served) {
      const int left = std::stoi(served->request());
      if (left == 0) return echo(served);
      const auto next = tasks[from]->transport->connect(at(tasks[1 - from]->port));
      next->call(1, std::to_string(left - 1), {}, {}, [=](Outcome outcome, std::string header) {
        served->answer(std::move(outcome), {header + "<" + std::to_string(left), {}, {}});
      });
    };
  };
  for (int i = 0; i < 2; ++i) tasks.push_back(std::make_unique<Task>(pass_on(i)));
  const auto client = new_transport({"test", "secret"});
  EXPECT_EQ(call(*client->connect(at(tasks[0]->port)), "3").header, "0<1<2<3");
  EXPECT_EQ(call(*client->connect(at(tasks[1]->port)), "20").outcome.code, 0);
  for (const auto& task : tasks) task->transport->stop();
}

}  // namespace
}  // namespace tmflow::runtime
