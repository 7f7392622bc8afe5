// The counters of one worker on one variable.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tmflow/measure/abort_counts.hpp"

namespace tmflow {

// x86 fetches lines of 64 bytes in pairs; POWER's are 128 bytes.
inline constexpr std::size_t kCacheLine = 128;

// What delayed an update, and how often.
enum class Contention {
  retries,              // of a critical section: the attempts of its transaction that aborted
  failed_publications,  // of an update: private copies that lost to another publication
  taken_blocks,         // of an update: blocks that another thread held at the first try
};

inline constexpr std::array kContentions{Contention::retries, Contention::failed_publications,
                                         Contention::taken_blocks};

constexpr std::string_view name_of(Contention kind) {
  constexpr std::string_view names[] = {"retries", "failed_publications", "taken_blocks"};
  return names[static_cast<std::size_t>(kind)];
}

// On separate cache lines, so that one worker's counting does not slow another one down.
//
// Transactions are counted separately from updates: an update may be several transactions. Every transaction
// ends as one commit or one fallback (the mutex was locked); every attempt ends as a commit or an abort, so
// attempts are commits plus aborts.
//
// Contention is counted in three units that are not comparable, each in a separate histogram (Contention).
// Lock times are kept only if `time_locks` requested them: reading the clock twice costs as much as a small
// update.
//
// Memory ordering: relaxed, because a counter publishes nothing but itself. The addition is atomic although
// each object belongs to one worker, so that no count is lost if a caller gives two threads the same worker.
class alignas(kCacheLine) ThreadStats {
 public:
  using Aborts = AbortCounts::ByStatus;  // by raw status

  // Of these counters; no others ever have the same.
  std::uint64_t number() const noexcept { return number_; }

  void count_update() noexcept { add(updates_); }
  void count_commit() noexcept { add(commits_); }
  void count_fallback() noexcept { add(fallbacks_); }
  void count_abort(std::uint64_t status, std::int64_t n = 1) noexcept { aborts_.add(status, n); }

  // One critical section, or one update, met with this kind of contention `n` times.
  void count(Contention kind, std::int64_t n) noexcept {
    add(histogram(kind)[static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, kMost))]);
  }

  // A read of the whole variable, if it is known whether it was torn.
  void count_read(bool torn) noexcept {
    add(reads_);
    if (torn) add(torn_);
  }

  void time_locks(bool wanted) noexcept { times_locks_.store(wanted, std::memory_order_relaxed); }
  bool times_locks() const noexcept { return times_locks_.load(std::memory_order_relaxed); }
  void add_lock_times(std::int64_t waited_ns, std::int64_t held_ns) noexcept {
    waited_ns_.fetch_add(waited_ns, std::memory_order_relaxed);
    held_ns_.fetch_add(held_ns, std::memory_order_relaxed);
  }

  // Records that there were unreported attempts: their number is then unknown.
  void hide_attempts() noexcept { attempts_hidden_.store(true, std::memory_order_relaxed); }

  std::int64_t updates() const noexcept { return updates_.load(std::memory_order_relaxed); }
  std::int64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
  std::int64_t fallbacks() const noexcept { return fallbacks_.load(std::memory_order_relaxed); }
  std::int64_t reads() const noexcept { return reads_.load(std::memory_order_relaxed); }
  std::int64_t torn() const noexcept { return torn_.load(std::memory_order_relaxed); }
  bool attempts_hidden() const noexcept { return attempts_hidden_.load(std::memory_order_relaxed); }
  Aborts aborts() const { return aborts_.by_status(); }

  // The number of critical sections, or updates, that met with this kind of contention `n` times; kMost
  // stands for that many or more.
  static constexpr std::int64_t kMost = 63;
  std::int64_t counted(Contention kind, std::int64_t n) const noexcept {
    return contention_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(n)].load(
        std::memory_order_relaxed);
  }

  // Nanoseconds spent waiting for locks, and holding them.
  std::int64_t waited_ns() const noexcept { return waited_ns_.load(std::memory_order_relaxed); }
  std::int64_t held_ns() const noexcept { return held_ns_.load(std::memory_order_relaxed); }

  // Whether locks are timed stays as it is.
  void reset() {
    for (auto* counter : {&updates_, &commits_, &fallbacks_, &reads_, &torn_, &waited_ns_, &held_ns_}) {
      counter->store(0, std::memory_order_relaxed);
    }
    for (const Contention kind : kContentions) {
      for (auto& counter : histogram(kind)) counter.store(0, std::memory_order_relaxed);
    }
    attempts_hidden_.store(false, std::memory_order_relaxed);
    aborts_.clear();
  }

 private:
  using Histogram = std::array<std::atomic<std::int64_t>, kMost + 1>;

  Histogram& histogram(Contention kind) noexcept { return contention_[static_cast<std::size_t>(kind)]; }

  static void add(std::atomic<std::int64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const std::uint64_t number_ = next_number();
  std::atomic<std::int64_t> updates_{0};
  std::atomic<std::int64_t> commits_{0};
  std::atomic<std::int64_t> fallbacks_{0};
  std::atomic<std::int64_t> reads_{0}, torn_{0};
  std::atomic<std::int64_t> waited_ns_{0};
  std::atomic<std::int64_t> held_ns_{0};
  std::atomic<bool> attempts_hidden_{false};
  std::atomic<bool> times_locks_{false};
  std::array<Histogram, kContentions.size()> contention_{};
  AbortCounts aborts_;
};

// The attempts that ended in these aborts and commits.
inline std::int64_t attempts(const ThreadStats& stats) {
  std::int64_t attempts = stats.commits();
  for (const auto& [status, count] : stats.aborts()) attempts += count;
  return attempts;
}

// The same, if all attempts were reported.
inline std::optional<std::int64_t> known_attempts(const ThreadStats& stats) {
  return stats.attempts_hidden() ? std::nullopt : std::optional(attempts(stats));
}

}  // namespace tmflow
