// Another hardware thread that does the same again and again, while something is measured.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "tmflow/probe/transactor.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::probe {

// Memory ordering: `rounds_` and `stop_` publish nothing; the end of the thread orders what it wrote.
class Companion {
 public:
  // Returns when it has done its work once.
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

  // Whether something committed, tried beside this at work; nothing where it commits although this did hardly
  // anything meanwhile, for that says nothing.
  template <class Attempt>
  std::optional<bool> beside(const Attempt& attempt) const {
    wait_for_another_round();  // it is not the one that the system has halted
    const auto before = rounds_.load(std::memory_order_relaxed);
    const bool committed = attempt();
    if (committed && rounds_.load(std::memory_order_relaxed) - before < 2) return std::nullopt;
    return committed;
  }

  // Rethrows what its work has thrown.
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
  std::thread running_;  // last, for it uses the others
};

}  // namespace tmflow::probe
