// The step tracker: how often each worker updated each variable, and how stale its reads were.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/measure/counters.hpp"

namespace tmflow {

// Exact counts by value: a dense part for the usual values and a map for the rest.
class Histogram {
 public:
  struct Row {
    std::int64_t value;
    std::int64_t count;
  };

  void add(std::int64_t value) {
    if (value < static_cast<std::int64_t>(dense_.size())) {
      ++dense_[static_cast<std::size_t>(value)];
    } else {
      ++rest_[value];
    }
  }

  // The values that occurred, in ascending order.
  std::vector<Row> rows() const {
    std::vector<Row> rows;
    for (std::size_t value = 0; value < dense_.size(); ++value) {
      if (dense_[value] != 0) rows.push_back({static_cast<std::int64_t>(value), dense_[value]});
    }
    for (const auto& [value, count] : rest_) rows.push_back({value, count});
    return rows;
  }

 private:
  std::array<std::int64_t, 256> dense_{};
  std::map<std::int64_t, std::int64_t> rest_;
};

// Tracks the steps of `workers` workers on `variables` variables. All methods may be called by any thread.
//
// The version counts completed steps. A step reads it before it reads any variable (begin_step) and completes
// after all its updates are applied (end_step); the steps completed in between, all by others when each
// worker takes one step at a time, are its staleness.
//
// Memory ordering: end_step adds with release and begin_step loads with acquire, so a worker that reads
// version v also sees the updates of the first v steps, as far as the strategy publishes updates at all.
// end_step also acquires, to order itself after the steps that it counts.
class Tracker {
 public:
  Tracker(int workers, int variables)
      : variables_(checked(variables, "variables")),
        stats_(checked(workers, "workers") * variables_),
        staleness_(static_cast<std::size_t>(workers)) {}

  int workers() const noexcept { return static_cast<int>(staleness_.size()); }
  int variables() const noexcept { return static_cast<int>(variables_); }

  // The number of completed steps; a reset does not set it back.
  std::int64_t begin_step() const noexcept { return version_.load(std::memory_order_acquire); }

  // Completes a step that began at version `begun_at`; returns its staleness.
  // Throws std::invalid_argument for a version that begin_step has not returned, and for an unknown worker.
  std::int64_t end_step(int worker, std::int64_t begun_at) {
    WorkerStaleness& own = staleness_[index(worker, staleness_.size(), "worker")];
    if (begun_at < 0 || begun_at > version_.load(std::memory_order_relaxed)) {
      throw std::invalid_argument("version " + std::to_string(begun_at) +
                                  " was never a version of this tracker");
    }
    const std::int64_t staleness = version_.fetch_add(1, std::memory_order_acq_rel) - begun_at;
    const std::lock_guard held(own.mutex);
    own.steps.add(staleness);
    return staleness;
  }

  // The counters of a worker on a variable. Throws std::invalid_argument if there is no such worker or
  // variable.
  ThreadStats& stats(int worker, int variable) {
    return stats_[index(worker, staleness_.size(), "worker") * variables_ +
                  index(variable, variables_, "variable")];
  }

  // How often the worker's steps had which staleness. Exact while the worker is idle.
  std::vector<Histogram::Row> staleness(int worker) {
    WorkerStaleness& own = staleness_[index(worker, staleness_.size(), "worker")];
    const std::lock_guard held(own.mutex);
    return own.steps.rows();
  }

  // Discards all counts. A step in progress is counted when it ends.
  void reset() {
    for (ThreadStats& stats : stats_) stats.reset();
    for (WorkerStaleness& own : staleness_) {
      const std::lock_guard held(own.mutex);
      own.steps = Histogram();
    }
  }

 private:
  // Locked by its worker alone, except for reads: the mutex is almost always free.
  struct alignas(kCacheLine) WorkerStaleness {
    std::mutex mutex;
    Histogram steps;
  };

  static std::size_t checked(int count, const char* what) {
    if (count < 1)
      throw std::invalid_argument(std::string(what) + " must be at least 1, not " + std::to_string(count));
    return static_cast<std::size_t>(count);
  }

  static std::size_t index(int i, std::size_t count, const char* what) {
    if (i < 0 || static_cast<std::size_t>(i) >= count) {
      throw std::invalid_argument(std::string(what) + " " + std::to_string(i) +
                                  " is out of range: there are " + std::to_string(count) +
                                  ", counted from 0");
    }
    return static_cast<std::size_t>(i);
  }

  alignas(kCacheLine) std::atomic<std::int64_t> version_{0};
  alignas(kCacheLine) std::size_t variables_;
  std::vector<ThreadStats> stats_;
  std::vector<WorkerStaleness> staleness_;
};

}  // namespace tmflow
