// Which updates of rows were in progress while rows were read, and whether the read saw only a part of one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tmflow/measure/shadow.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow {

// The latest updates of a variable's rows: of each worker its number of updates, and the rows of the latest
// ones. A worker numbers its updates from 1, and makes one at a time.
class RowUpdates {
 public:
  // `kept`: so many row numbers are kept for each worker; the rows of older updates are not known any more.
  explicit RowUpdates(int workers, std::size_t kept = std::size_t{1} << 21)
      : kept_(kept), workers_(static_cast<std::size_t>(workers)) {}

  std::size_t workers() const noexcept { return workers_.size(); }

  // The stamp of the worker's next update, which has these rows, in order. `end` follows when it is made.
  Shadow::Stamp begin(std::size_t worker, std::span<const std::int64_t> rows) {
    OfWorker& own = workers_[worker].value;
    const std::lock_guard held(own.lock);
    own.latest.emplace_back(rows.begin(), rows.end());
    for (own.rows += rows.size(); own.rows > kept_ && own.latest.size() > 1; own.latest.pop_front()) {
      own.rows -= own.latest.front().size();
    }
    return {worker, ++own.begun};
  }

  // Releases the update's changes to readers that begin later.
  void end(Shadow::Stamp update) noexcept {
    workers_[update.worker].value.ended.store(update.number, std::memory_order_release);
  }

  std::int64_t ended(std::size_t worker) const noexcept {
    return workers_[worker].value.ended.load(std::memory_order_acquire);
  }

  // The rows of an update that has begun; nullopt if they are not known any more.
  std::optional<std::vector<std::int64_t>> rows_of(Shadow::Stamp update) const {
    const OfWorker& of = workers_[update.worker].value;
    const std::lock_guard held(of.lock);
    const auto back = static_cast<std::size_t>(of.begun - update.number);
    if (back >= of.latest.size()) return std::nullopt;
    return of.latest[of.latest.size() - 1 - back];
  }

  // Must be called while no thread updates or reads.
  void reset() noexcept {
    for (auto& of : workers_) {
      of.value.latest.clear();
      of.value.rows = 0;
      of.value.begun = 0;
      of.value.ended.store(0, std::memory_order_relaxed);
    }
  }

 private:
  struct OfWorker {
    mutable SpinLock lock;                         // of the next three
    std::deque<std::vector<std::int64_t>> latest;  // the rows of updates, up to number `begun`
    std::size_t rows = 0;                          // in `latest`
    std::int64_t begun = 0;
    std::atomic<std::int64_t> ended{0};
  };

  const std::size_t kept_;
  std::vector<Padded<OfWorker>> workers_;
};

// One read of some rows of a variable that has a shadow with stamps. It is torn if a row was, or if it has
// the change of an update in one row and lacks it in another: then the rows are not what they were after any
// set of updates.
//
// An update that had ended before the read began is in all of its rows. An update of a worker that began
// later is in a row exactly if the row's stamp of that worker is not below its number, as a worker makes one
// update at a time. So the updates between the two decide, and no others have to be looked at.
class WatchedRows {
 public:
  WatchedRows(const Shadow& shadow, const RowUpdates& updates) : shadow_(shadow), updates_(updates) {
    for (std::size_t worker = 0; worker < updates.workers(); ++worker) {
      ended_.push_back(updates.ended(worker));
    }
  }

  // Runs `copy(begin, n)` on the elements [first, first + count) of the row, block by block; once for a row.
  template <class Copying>
  void around(std::int64_t row, std::size_t first, std::size_t count, const Copying& copy) {
    shadow_.for_each_part(first, count, [&](std::size_t begin, std::size_t n) {
      stamps_.resize(stamps_.size() + ended_.size());
      const auto stamps = std::span(stamps_).last(ended_.size());
      const Shadow::Sums sums = shadow_.beside(begin, [&] {
        copy(begin, n);
        shadow_.copy_stamps(begin, stamps);
      });
      intact_ = intact_ && sums.ended == sums.begun && Shadow::is_whole(sums.begun);
      rows_.push_back(row);
    });
  }

  // A read counts as torn if the rows of an update that began meanwhile are not known any more.
  bool torn() const {
    if (!intact_) return true;
    for (std::size_t worker = 0; worker < ended_.size(); ++worker) {
      std::int64_t last = 0;
      for (std::size_t part = 0; part < rows_.size(); ++part) last = std::max(last, stamp(part, worker));
      for (std::int64_t number = ended_[worker] + 1; number <= last; ++number) {
        if (has_a_part_of({worker, number})) return true;
      }
    }
    return false;
  }

 private:
  std::int64_t stamp(std::size_t part, std::size_t worker) const {
    return stamps_[part * ended_.size() + worker];
  }

  bool has_a_part_of(Shadow::Stamp update) const {
    const auto changed = updates_.rows_of(update);
    if (!changed) return true;
    bool with = false, without = false;
    for (std::size_t part = 0; part < rows_.size(); ++part) {
      if (!std::ranges::binary_search(*changed, rows_[part])) continue;
      (stamp(part, update.worker) >= update.number ? with : without) = true;
    }
    return with && without;
  }

  const Shadow& shadow_;
  const RowUpdates& updates_;
  std::vector<std::int64_t> ended_;   // by worker, when the read began
  std::vector<std::int64_t> rows_;    // of each part, which lies in one block
  std::vector<std::int64_t> stamps_;  // of each part, by worker
  bool intact_ = true;
};

}  // namespace tmflow
