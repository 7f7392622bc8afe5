// Calls by HPX between real processes: clusters that start and stop again and again, and a process that is
// killed.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "transport_tools.hpp"

namespace tmflow::runtime {
namespace {

constexpr std::size_t kLarge = 16 << 20;

// Answers with as many bytes as the request says, until its input ends.
int serve() {
  Handler service([](const std::shared_ptr<Served>& call) {
    const auto body = std::make_shared<const std::string>(std::stoul(call->request()), 'x');
    call->answer({}, {call->request(), *body, body});
  });
  const auto transport = new_transport({"test", "secret"});
  const int port = transport->listen("127.0.0.1:0", service);
  if (write(STDOUT_FILENO, &port, sizeof port) != sizeof port) return 1;
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  transport->stop();
  return 0;
}

// Calls the task at this address for far more bytes than a connection may queue, after a call that is not
// answered.
int call_for_much(const char* address) {
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(address);
  start(*peer, "hold");
  std::vector<Pending> calls;
  for (int i = 0; i < 30; ++i) calls.push_back(start(*peer, std::to_string(kLarge)));
  for (Pending& one : calls) get(std::move(one.answer));
  return 0;
}

// This program again, as a server or a caller.
class Process {
 public:
  explicit Process(std::vector<std::string> words) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    words.insert(words.begin(), "/proc/self/exe");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawn(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
    if (error != 0) throw std::runtime_error("the process does not start");
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (process_ != 0) end();
    ::close(output_);
  }

  // Of a server.
  std::string address() {
    int port = 0;
    if (read(output_, &port, sizeof port) != sizeof port) throw std::runtime_error("the server has ended");
    return at(port);
  }

  // How the process ends when its input does.
  int end() {
    ::close(input_);
    int status = 0;
    waitpid(std::exchange(process_, 0), &status, 0);
    return status;
  }

  void kill() { ::kill(process_, SIGKILL); }
  void suspend() { ::kill(process_, SIGSTOP); }

 private:
  pid_t process_ = 0;
  int input_ = -1, output_ = -1;
};

struct ServerProcess : Process {
  ServerProcess() : Process({"serve"}) {}
};

TEST(HpxProcesses, ClustersStartAndStopAgainAndAgain) {
  const auto began = tcp::Clock::now();
  for (int cycle = 0; cycle < 100; ++cycle) {
    ServerProcess servers[3];  // which start at the same time
    const auto client = new_transport({"test", "secret"});
    for (ServerProcess& server : servers) {
      const std::string address = server.address();
      for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, kLarge}) {
        const Answer answer = call(*client->connect(address), std::to_string(size), {5s});
        EXPECT_EQ(answer.outcome.code, 0) << answer.outcome.text;
        EXPECT_EQ(answer.body.size(), size);
      }
    }
    for (ServerProcess& server : servers) EXPECT_EQ(server.end(), 0);
  }
  EXPECT_LT(tcp::Clock::now() - began, kSoon);
}

// A process that is met for the first time, by many at the same time.
TEST(HpxProcesses, ManyConnectAtTheSameTime) {
  for (int round = 0; round < 10; ++round) {
    ServerProcess server;
    const std::string address = server.address();
    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        const auto client = new_transport({"test", "secret"});
        for (int call_number = 0; call_number < 3; ++call_number) {
          const Answer answer = call(*client->connect(address), "100000", {10s});
          EXPECT_EQ(answer.outcome.code, 0) << answer.outcome.text;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

// HPX would try for 100 s to reach the process, in a thread that other connections need: see envs/hpx.sh.
TEST(HpxProcesses, CallsToAKilledProcessEndAndDoNotHoldUpOthers) {
  ServerProcess healthy;
  const auto client = new_transport({"test", "secret"});
  const auto peer = client->connect(healthy.address());
  for (int round = 0; round < 10; ++round) {
    ServerProcess victim;
    const auto doomed = client->connect(victim.address());
    std::atomic<int> n_answers = 0;
    std::vector<std::thread> callers;
    std::vector<Outcome> outcomes(3);
    for (Outcome& outcome : outcomes) {
      callers.emplace_back([&] {
        while (outcome.code == 0) outcome = call(*doomed, std::to_string(kLarge)).outcome, ++n_answers;
      });
    }
    while (n_answers < 6) std::this_thread::sleep_for(1ms);
    victim.kill();
    const auto killed = tcp::Clock::now();
    for (std::thread& caller : callers) caller.join();
    EXPECT_LT(tcp::Clock::now() - killed, 2s);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, kUnavailable) << outcome.text;
    for (int i = 0; i < 20; ++i) {
      const Answer answer = call(*peer, "100", {2s});
      EXPECT_EQ(answer.outcome.code, 0) << answer.outcome.text;
    }
    victim.end();
  }
}

// A caller that takes none of its answers, so that the thread that reads its calls waits for room, and then
// is killed. HPX does not say that it cannot send them.
TEST(HpxProcesses, ACallerThatIsKilledWithFullQueuesIsNoticed) {
  std::promise<void> cancelled;
  std::atomic<int> n_large = 0;
  Held held;
  const Task task([&](const std::shared_ptr<Served>& call) {
    if (call->request() == "hold") {
      call->on_cancel([&] { cancelled.set_value(); });
      return held.add(call);
    }
    ++n_large;
    const auto body = std::make_shared<const std::string>(kLarge, 'x');
    call->answer({}, {call->request(), *body, body});
  });
  Process caller({"call", at(task.port)});
  const auto unanswered = held.take(1);
  while (n_large == 0) std::this_thread::sleep_for(1ms);
  caller.suspend();
  for (int before = -1; before != n_large;) {  // until no further call is read
    before = n_large;
    std::this_thread::sleep_for(200ms);
  }
  EXPECT_LT(n_large, 30);
  caller.kill();
  const auto killed = tcp::Clock::now();
  get(cancelled.get_future());
  EXPECT_LT(tcp::Clock::now() - killed, 2s);
}

}  // namespace
}  // namespace tmflow::runtime

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "serve") return tmflow::runtime::serve();
  if (argc == 3 && std::string(argv[1]) == "call") return tmflow::runtime::call_for_much(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
