// Another hardware thread that repeats the same work during a measurement.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "tmflow/probe/transactor.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::probe {

// Memory ordering: `rounds_` and `stop_` publish nothing; joining the thread orders what it wrote.
class Companion {
 public:
  // Returns after the work has run once.
  Companion(const Transactor& transactor, int thread, std::function<void()> work)
      : running_([this, &transactor, thread, work = std::move(work)] {
          try {
            transactor.settle(thread);
            while (!stop_.load(std::memory_order_relaxed)) {
              work();
              rounds_.fetch_add(1, std::memory_order_relaxed);
            }
          } catch (...) {
            failed_ = std::current_exception();
            ended_.store(true);
          }
        }) {
    wait_for_another_round();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;
  ~Companion() { stop(); }

  // Whether an attempt beside the work committed. nullopt if it committed while the work made almost no
  // progress, because that commit shows nothing.
  template <class Attempt>
  std::optional<bool> beside(const Attempt& attempt) const {
    wait_for_another_round();  // it is not the one that the system has halted
    const auto before = rounds_.load(std::memory_order_relaxed);
    const bool committed = attempt();
    if (committed && rounds_.load(std::memory_order_relaxed) - before < 2) return std::nullopt;
    return committed;
  }

  // Rethrows an exception of the work.
  void finish() {
    stop();
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }

 private:
  void wait_for_another_round() const {
    const auto before = rounds_.load(std::memory_order_relaxed);
    for (Turn turn; rounds_.load(std::memory_order_relaxed) == before && !ended_.load(); ++turn) {
      Waiting<std::atomic>::once(turn);
    }
  }

  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (running_.joinable()) running_.join();
  }

  std::atomic<bool> stop_{false}, ended_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::exception_ptr failed_;
  std::thread running_;  // last, because it uses the other members
};

}  // namespace tmflow::probe
