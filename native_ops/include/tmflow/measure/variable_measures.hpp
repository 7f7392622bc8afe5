// Additional measures of a variable: lost updates and torn reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/shadow.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow {

// The counts of a shadow under a strategy that does not run the kernel in place: a separate variable with an
// element for each block. Each update also updates it, under another object of the same strategy. It shows
// whether such updates are lost, not whether exactly these were.
class CountsBeside {
 public:
  CountsBeside(std::string_view strategy, std::span<const std::string> parameters, std::size_t elements,
               int workers)
      : strategy_(make_strategy<ArrayRegion<double>>(strategy, parameters)),
        stats_(static_cast<std::size_t>(workers)) {
    const Blocks blocks{elements, Shadow::kBlock};
    for (std::size_t block = 0; block < blocks.count(); ++block) {
      sizes_.push_back(static_cast<double>(blocks.size(block)));
    }
    counts_.resize(sizes_.size());
    region_ = std::make_unique<ArrayRegion<double>>(std::span<double>(counts_));
  }

  // Call it once for each update of the variable; any number of threads may call it at the same time.
  void update(int worker) {
    strategy_->apply(*region_, {.alpha = -1, .delta = sizes_}, stats_[static_cast<std::size_t>(worker)]);
  }

  // The next two functions are as in Shadow.
  std::int64_t kept() {
    strategy_->settle(*region_);
    return static_cast<std::int64_t>(std::accumulate(counts_.begin(), counts_.end(), 0.0));
  }
  void reset() {
    std::ranges::fill(counts_, 0.0);
    strategy_->restart(*region_);
  }

 private:
  const std::unique_ptr<AnyStrategy<ArrayRegion<double>>> strategy_;
  std::vector<ThreadStats> stats_;  // of the updates of the counts; never read
  LinesOf<double> sizes_, counts_;
  std::unique_ptr<ArrayRegion<double>> region_;
};

// The measures of one variable with that many elements under one strategy.
class VariableMeasures {
 public:
  VariableMeasures(std::string_view strategy, std::span<const std::string> parameters, std::size_t elements,
                   int workers)
      : elements_(elements) {
    const Listed listed = listed_strategy(strategy);
    if (listed.in_place()) {
      const Parameters values = parameters_of(strategy, parameters);
      const auto kernel = find_kernel<double>(values.text("kernel"), values.text("optimisation"));
      // A strategy of `block` consistency has a parameter of that name: the length of a block.
      shadow_ =
          listed.info.updates == Consistency::block
              ? std::make_unique<Shadow>(elements, kernel, static_cast<std::size_t>(values.integer("block")))
              : std::make_unique<Shadow>(elements, kernel);
    } else {
      beside_ = std::make_unique<CountsBeside>(strategy, parameters, elements, workers);
    }
  }

  std::size_t elements() const noexcept { return elements_; }

  // Null if torn reads cannot be detected, because the strategy does not update in place.
  Shadow* shadow() noexcept { return shadow_.get(); }

  // Runs `apply(update)`, one update of the variable, and measures it.
  template <class T, class Apply>
  void around(GradientDescent<T> update, int worker, const Apply& apply) {
    if (shadow_ != nullptr) {
      update.shadow = shadow_.get();
      update.id = Shadow::new_id();
    }
    apply(update);
    if (beside_ != nullptr) beside_->update(worker);
  }

  // As in Shadow.
  std::int64_t kept() { return shadow_ != nullptr ? shadow_->kept() : beside_->kept(); }
  void reset() { shadow_ != nullptr ? shadow_->reset() : beside_->reset(); }

 private:
  const std::size_t elements_;
  std::unique_ptr<Shadow> shadow_;
  std::unique_ptr<CountsBeside> beside_;
};

}  // namespace tmflow
