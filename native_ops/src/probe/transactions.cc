// All measurements of transactions, on a real or an emulated processor.
#include <cstdio>
#include <exception>
#include <map>
#include <thread>

#include "tmflow/probe/parts.hpp"
#include "trials.hpp"

namespace tmflow::probe {
namespace {

constexpr int kTrialTransactions = 100;

// Shares of the time.
constexpr double kCapacity = 0.5, kConflicts = 0.1, kSiblings = 0.25, kAsynchronous = 0.1;

std::string hexadecimal(std::uint64_t status) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%08llx", static_cast<unsigned long long>(status));
  return text;
}

// Counts commits of transactions that write one place. The reported feature does not suffice: microcode may
// abort all of them.
int commit_a_few(Transactor& transactor, Findings& found) {
  Space space(1 << 16);
  const Walk walk{.base = space.data(), .stride = 1, .count = 1, .write = true};
  transactor.prepare(walk);
  int committed = 0;
  std::map<std::uint64_t, int> statuses;
  for (int i = 0; i < kTrialTransactions; ++i) {
    htm::Ended ended;
    if (transactor.attempt(transactor.first(), {&walk, 1}, ended)) {
      ++committed;
    } else {
      ++statuses[ended.status];
    }
  }
  Json::Object counted;
  for (const auto& [status, n] : statuses) counted[hexadecimal(status)] = n;
  found.set("tried", kTrialTransactions);
  found.set("committed", committed);
  found.set("statuses", counted);
  return committed;
}

Json none(const std::string& why) {
  Findings found;
  found.find("provider", [&]() -> std::string { throw NotMeasured(why); });
  for (const char* const name : {"reported", "enabled", "commits"}) found.set(name, false);
  for (const char* const name : {"tried", "committed"}) found.set(name, 0);
  found.set("statuses", Json::Object());
  for (const char* const name : {"capacity", "conflicts", "siblings", "asynchronous", "costs"}) {
    found.find(name, [&]() -> Json { throw NotMeasured(why); });
  }
  return found.json();
}

Json find(Transactor& transactor, bool timed, double seconds) {
  Findings found;
  found.set("provider", transactor.dialect());
  found.set("reported", transactor.reported());
  found.set("enabled", transactor.enabled());
  transactor.settle(transactor.first());
  found.set("tried", 0);
  found.set("committed", 0);
  found.set("statuses", Json::Object());
  const int committed = transactor.reported() ? commit_a_few(transactor, found) : 0;
  found.set("commits", committed > 0);

  const auto part = [&](const char* name, double share, const auto& find_it) {
    found.find(name, [&] {
      if (!transactor.reported()) throw NotMeasured("this processor does not report transactions");
      if (committed == 0) throw NotMeasured("none of the trial transactions committed");
      return find_it(Budget(share * seconds));
    });
  };
  Fits fits;
  part("capacity", kCapacity, [&](Budget budget) { return find_capacity(transactor, budget, fits); });
  part("conflicts", kConflicts, [&](Budget budget) { return find_conflicts(transactor, budget); });
  part("siblings", kSiblings, [&](Budget budget) { return find_siblings(transactor, fits, budget); });
  part("asynchronous", kAsynchronous,
       [&](Budget budget) { return find_asynchronous(transactor, fits, timed, budget); });
  part("costs", 1 - kCapacity - kConflicts - kSiblings - kAsynchronous, [&](Budget budget) {
    if (!timed) throw NotMeasured("times of an emulated machine mean nothing");
    return find_costs(budget);
  });
  return found.json();
}

}  // namespace

Json find_transactions(Transactor* transactor, bool timed, double seconds) {
  if (transactor == nullptr) return none("no hardware transactions are known for this family of processors");
  // In a separate thread, because it pins itself to a processor; the caller's thread stays where it was.
  Json found;
  std::exception_ptr failed;
  std::thread([&] {
    try {
      found = find(*transactor, timed, seconds);
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed != nullptr) std::rethrow_exception(failed);
  return found;
}

}  // namespace tmflow::probe
