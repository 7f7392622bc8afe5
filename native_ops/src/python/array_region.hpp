// A NumPy array of either type as a variable, with its mutex, its strategies and its counters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tmflow/registry.hpp"
#include "tmflow/tracker.hpp"

namespace tmflow::python {

// Any number of threads may apply updates at once.
template <class T>
class Variable {
 public:
  Variable(std::span<T> memory, int workers) : region_(memory), counts_(workers, 1) {}

  std::size_t elements() { return region_.memory(Holding::nothing).size(); }

  void apply(const std::string& strategy, const GradientDescent<T>& update, int worker) {
    object_of(strategy).apply(region_, update, counts_.stats(worker, 0));
  }

  std::vector<std::int64_t> updates() {
    std::vector<std::int64_t> updates;
    for (int worker = 0; worker < counts_.workers(); ++worker) {
      updates.push_back(counts_.stats(worker, 0).updates());
    }
    return updates;
  }

 private:
  using Region = ArrayRegion<T>;

  // The strategy's object for this variable, made when it is first used.
  AnyStrategy<Region>& object_of(const std::string& strategy) {
    const std::lock_guard held(strategies_mutex_);
    auto& object = strategies_[strategy];
    if (object == nullptr) object = make_strategy<Region>(strategy);
    return *object;
  }

  Region region_;
  Tracker counts_;
  std::mutex strategies_mutex_;
  std::map<std::string, std::unique_ptr<AnyStrategy<Region>>> strategies_;
};

}  // namespace tmflow::python
