// Elision where every transaction aborts: one JSON object per retry policy.
//
//     bare_elision why_not
//     bare_elision run
//
// `why_not` prints in JSON why a study would not use this machine's transactions: null or the reason. `run`
// runs them without a check. Use it only where `why_not` is null, or under an emulator, which gives the
// transactional instructions a meaning whatever it reports. Elsewhere they may be illegal.
#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/htm/mutex_word.hpp"
#include "tmflow/htm/transactions.hpp"

namespace {

using namespace tmflow;

constexpr int kThreads = 4, kUpdates = 25, kElements = 100, kChunk = 30;
constexpr std::int64_t kBudget = 5;

const htm::Provider& own_provider() { return htm::kNative == "power" ? htm::kPower : htm::kRtm; }

// Every thread adds 1 to each element kUpdates times, in chunks; prints the counts and whether the sums are
// exact.
template <class T>
void run(const char* spending_name, htm::Spending spending) {
  std::vector<T> variable(kElements), delta(kElements, 1);
  ArrayRegion<T> region(variable);
  std::vector<ThreadStats> stats(kThreads);
  const GradientDescent<T> add{.alpha = -1, .delta = delta};
  const htm::ElidableMutex mutex = htm::elidable(region.mutex());
  {
    std::vector<std::jthread> threads;
    for (ThreadStats& own : stats) {
      threads.emplace_back([&] {
        for (int u = 0; u < kUpdates; ++u) {
          own_provider().run(htm::ElidedUpdate<T>{add, variable, kChunk}, mutex, {kBudget, spending}, own);
        }
      });
    }
  }
  std::int64_t commits = 0, fallbacks = 0;
  ThreadStats::Aborts aborts;
  for (const ThreadStats& own : stats) {
    commits += own.commits();
    fallbacks += own.fallbacks();
    for (const auto& [status, count] : own.aborts()) aborts[status] += count;
  }
  const bool exact = variable == std::vector<T>(kElements, kThreads * kUpdates);
  std::string statuses;
  for (const auto& [status, count] : aborts) {
    char row[64];
    std::snprintf(row, sizeof row, "%s\"0x%08" PRIx64 "\": %" PRId64, statuses.empty() ? "" : ", ", status,
                  count);
    statuses += row;
  }
  std::printf("{\"spending\": \"%s\", \"dtype\": \"float%zu\", \"exact\": %s, \"sections\": %d, ",
              spending_name, 8 * sizeof(T), exact ? "true" : "false",
              kThreads * kUpdates * ((kElements + kChunk - 1) / kChunk));
  std::printf("\"commits\": %" PRId64 ", \"fallbacks\": %" PRId64 ", \"aborts\": {%s}}\n", commits, fallbacks,
              statuses.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 2 ? argv[1] : "";
  if (command == "why_not") {
    const auto reason = own_provider().why_not();
    std::printf("%s\n", reason ? ("\"" + *reason + "\"").c_str() : "null");
    return 0;
  }
  if (command == "run") {
    using enum htm::Spending;
    for (const auto& [name, spending] : {std::pair{"study_tsx", study_tsx},
                                         std::pair{"study_power", study_power}, std::pair{"tuned", tuned}}) {
      run<float>(name, spending);
      run<double>(name, spending);
    }
    return 0;
  }
  std::fprintf(stderr, "usage: bare_elision why_not|run\n");
  return 2;
}
