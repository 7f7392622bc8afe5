// The counters of one worker on one variable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace tmflow {

// x86 fetches lines of 64 bytes in pairs; POWER's are 128 bytes.
inline constexpr std::size_t kCacheLine = 128;

// Alone on its cache lines: counting by one worker does not slow another one down.
//
// Transactions are counted apart from updates: an update may be several transactions. Every transaction ends
// as one commit or one fallback (the mutex was taken); every attempt ends as a commit or an abort, so
// attempts are commits plus aborts.
//
// Memory ordering: relaxed, because a counter publishes nothing but itself. The addition is atomic although
// each object belongs to one worker, so that a caller who gives two threads the same worker loses no count.
class alignas(kCacheLine) ThreadStats {
 public:
  using Aborts = std::map<std::uint64_t, std::int64_t>;  // by raw status

  void count_update() noexcept { add(updates_); }
  void count_commit() noexcept { add(commits_); }
  void count_fallback() noexcept { add(fallbacks_); }
  void count_abort(std::uint64_t status) {
    const std::lock_guard held(aborting_);
    ++aborts_[status];
  }

  std::int64_t updates() const noexcept { return updates_.load(std::memory_order_relaxed); }
  std::int64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
  std::int64_t fallbacks() const noexcept { return fallbacks_.load(std::memory_order_relaxed); }
  Aborts aborts() const {
    const std::lock_guard held(aborting_);
    return aborts_;
  }

  void reset() {
    for (auto* counter : {&updates_, &commits_, &fallbacks_}) counter->store(0, std::memory_order_relaxed);
    const std::lock_guard held(aborting_);
    aborts_.clear();
  }

 private:
  static void add(std::atomic<std::int64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<std::int64_t> updates_{0};
  std::atomic<std::int64_t> commits_{0};
  std::atomic<std::int64_t> fallbacks_{0};
  mutable std::mutex aborting_;  // of the worker alone, save when somebody reads: free nearly always
  Aborts aborts_;
};

// The attempts that the aborts and commits are the ends of.
inline std::int64_t attempts(const ThreadStats& stats) {
  std::int64_t attempts = stats.commits();
  for (const auto& [status, count] : stats.aborts()) attempts += count;
  return attempts;
}

// The same, where all attempts were told of.
inline std::optional<std::int64_t> known_attempts(const ThreadStats& stats) { return attempts(stats); }

}  // namespace tmflow
