// Which kernels are worth another thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "tensorflow/core/common_runtime/graph_view.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tmflow::runtime {

// A kernel says whether it may be expensive; those that do are timed, and the cheap ones run where they
// became ready. The method is TensorFlow's, which counts cycles.
class KernelCosts {
 public:
  explicit KernelCosts(const tensorflow::GraphView& graph) : costs_(new Cost[graph.num_nodes()]) {
    for (int node = 0; node < graph.num_nodes(); ++node) {
      const tensorflow::NodeItem* item = graph.node(node);  // null for a removed node
      costs_[node].may_be_expensive = item && item->kernel && item->kernel->IsExpensive();
    }
  }

  bool is_timed(int node) const { return costs_[node].may_be_expensive; }

  bool is_expensive(int node) const {
    return costs_[node].may_be_expensive && costs_[node].ns.load(std::memory_order_relaxed) > kExpensiveNs;
  }

  // The time of a run. Threads may overwrite each other's: it is an estimate.
  void record(int node, std::chrono::nanoseconds took) {
    std::atomic<int64_t>& cost = costs_[node].ns;
    const int64_t before = cost.load(std::memory_order_relaxed);
    const int64_t after = before == kUnmeasuredNs ? took.count() : before + (took.count() - before) / kDecay;
    cost.store(after, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kExpensiveNs = 3000;         // about what giving a task to another thread costs
  static constexpr int64_t kUnmeasuredNs = 10'000'000;  // until measured, a kernel counts as expensive
  static constexpr int64_t kDecay = 10;

  struct Cost {
    std::atomic<int64_t> ns{kUnmeasuredNs};
    bool may_be_expensive = false;
  };

  std::unique_ptr<Cost[]> costs_;
};

}  // namespace tmflow::runtime
