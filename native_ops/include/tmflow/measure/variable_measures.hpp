// Additional measures of a variable: lost updates and torn reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/row_updates.hpp"
#include "tmflow/measure/shadow.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow {

// The counts of a shadow under a strategy that does not run the kernel in place: a separate variable with an
// element for each block, or for each row. Each update also updates it, under another object of the same
// strategy. It shows whether such updates are lost, not whether exactly these were.
class CountsBeside {
 public:
  // `block`: the length of a block, or of a row.
  CountsBeside(std::string_view strategy, std::span<const std::string> parameters, std::size_t elements,
               std::size_t block, int workers)
      : strategy_(make_strategy<ArrayRegion<double>>(strategy, parameters)),
        workers_(static_cast<std::size_t>(workers)) {
    const Blocks blocks{elements, block};
    for (std::size_t number = 0; number < blocks.count(); ++number) {
      sizes_.push_back(static_cast<double>(blocks.size(number)));
    }
    counts_.resize(sizes_.size());
    region_ = std::make_unique<ArrayRegion<double>>(std::span<double>(counts_));
  }

  // Call it once for each update of the variable; any number of threads may call it at the same time.
  void update(int worker) {
    strategy_->apply(*region_, {.alpha = -1, .delta = sizes_},
                     workers_[static_cast<std::size_t>(worker)].stats);
  }

  // The same for an update of these rows.
  void update(int worker, std::span<const std::int64_t> rows) {
    Worker& own = workers_[static_cast<std::size_t>(worker)];
    own.values.assign(rows.size(), sizes_.front());
    const RowGradient<double> gradient{
        .rows = rows, .values = own.values, .width = 1, .elements = counts_.size()};
    strategy_->apply(*region_, {.alpha = -1, .rows = &gradient}, own.stats);
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
  struct Worker {
    ThreadStats stats;  // of the updates of the counts; never read
    std::vector<double> values;
  };

  const std::unique_ptr<AnyStrategy<ArrayRegion<double>>> strategy_;
  std::vector<Worker> workers_;
  LinesOf<double> sizes_, counts_;
  std::unique_ptr<ArrayRegion<double>> region_;
};

// The measures of one variable with that many elements under one strategy.
class VariableMeasures {
 public:
  // `width`: the length of a row, if every update is one of rows; 0 if every update changes all elements.
  // `has_slots`: whether updates change slots too, which only strategies that update in place do.
  // `watches_rows`: whether reads of rows will be watched, which takes memory.
  VariableMeasures(std::string_view strategy, std::span<const std::string> parameters, std::size_t elements,
                   int workers, std::size_t width = 0, bool has_slots = false, bool watches_rows = true)
      : elements_(elements), width_(width), touched_(static_cast<std::size_t>(workers)) {
    const Listed listed = listed_strategy(strategy);
    if (listed.in_place()) {
      const Parameters values = parameters_of(strategy, parameters);
      const auto kernel = find_kernel<double>(values.text("kernel"), values.text("optimisation"));
      // Updates of different rows do not exclude each other, so no two rows have a count in common.
      const std::size_t guarded = std::gcd(guarded_by(listed, values), width);
      if (width != 0 && elements / guarded > kMostOfRows) {
        throw std::invalid_argument("full measures would need " + std::to_string(elements / guarded) +
                                    " counts of rows, but at most " + std::to_string(kMostOfRows) +
                                    " are allowed");
      }
      const bool watches = width != 0 && watches_rows;
      if (watches) row_updates_ = std::make_unique<RowUpdates>(workers);
      shadow_ = std::make_unique<Shadow>(elements, kernel, guarded, has_slots,
                                         watches ? static_cast<std::size_t>(workers) : 0);
    } else {
      const std::size_t block = width == 0 ? Shadow::kBlock : width;
      beside_ = std::make_unique<CountsBeside>(strategy, parameters, elements, block, workers);
    }
  }

  std::size_t elements() const noexcept { return elements_; }
  bool by_rows() const noexcept { return width_ != 0; }

  // For reads of the whole variable. Null if torn reads cannot be detected, because the strategy does not
  // update in place, or because blocks of rows contain different updates.
  Shadow* shadow() noexcept { return width_ == 0 ? shadow_.get() : nullptr; }

  // Whether torn reads of some rows can be detected; then a new read of some.
  bool watches_rows() const noexcept { return row_updates_ != nullptr; }
  WatchedRows watch_rows() const { return {*shadow_, *row_updates_}; }

  // Runs `apply(update)`, one update of the variable, and measures it.
  template <class T, class Apply>
  void around(GradientDescent<T> update, int worker, const Apply& apply) {
    if (shadow_ != nullptr) {
      update.shadow = shadow_.get();
      update.id = Shadow::new_id();
    }
    if (row_updates_ != nullptr) {
      update.stamp = row_updates_->begin(static_cast<std::size_t>(worker), update.rows->rows);
    }
    apply(update);
    if (row_updates_ != nullptr) row_updates_->end(update.stamp);
    if (update.rows != nullptr) {
      touched_[static_cast<std::size_t>(worker)].value +=
          static_cast<std::int64_t>(update.rows->values.size());
      if (beside_ != nullptr) beside_->update(worker, update.rows->rows);
    } else if (beside_ != nullptr) {
      beside_->update(worker);
    }
  }

  // The updates of elements that `updates` updates of the variable made. Must be called while no thread
  // updates.
  std::int64_t expected(std::int64_t updates) const noexcept {
    if (width_ == 0) return updates * static_cast<std::int64_t>(elements_);
    return std::transform_reduce(touched_.begin(), touched_.end(), std::int64_t{0}, std::plus<>(),
                                 [](const auto& of_worker) { return of_worker.value; });
  }

  // As in Shadow.
  std::optional<std::int64_t> inconsistent() const noexcept {
    return shadow_ == nullptr ? std::nullopt : shadow_->inconsistent();
  }
  std::int64_t kept() { return shadow_ != nullptr ? shadow_->kept() : beside_->kept(); }
  void reset() {
    for (auto& of_worker : touched_) of_worker.value = 0;
    shadow_ != nullptr ? shadow_->reset() : beside_->reset();
    if (row_updates_ != nullptr) row_updates_->reset();
  }

 private:
  static constexpr std::size_t kMostOfRows =
      1'000'000;  // counts; each takes two cache lines, and one or more of stamps

  // The number of elements that one lock of the strategy guards; each lock has a multiple of them.
  std::size_t guarded_by(const Listed& listed, const Parameters& values) const {
    // A strategy of `block` consistency has a parameter of that name: the length of a block.
    // 0: the length fits the variable; it is a multiple of a shadow's block.
    if (listed.info.updates == Consistency::block) {
      const auto block = static_cast<std::size_t>(values.integer("block"));
      return block == 0 ? Shadow::kBlock : block;
    }
    // `adaptive` chooses among strategies with blocks of a multiple of a shadow's block. Chunks exclude each
    // other, even if they share a count: they have one mutex, and transactions of two conflict on the count.
    const bool in_blocks = listed.updates_over(values, elements_) == Consistency::block;
    return in_blocks ? Shadow::kBlock : std::max<std::size_t>(elements_, 1);
  }

  const std::size_t elements_, width_;
  std::vector<Padded<std::int64_t>> touched_;  // elements of updated rows, by worker
  std::unique_ptr<Shadow> shadow_;
  std::unique_ptr<RowUpdates> row_updates_;  // null unless there is a shadow and every update is one of rows
  std::unique_ptr<CountsBeside> beside_;
};

// Runs `read(reading)`, a read of a whole variable with these measures, or without if they are null. Counts
// whether it was torn, if that can be known.
template <class T, class Read>
void measured_read(VariableMeasures* measures, Reading<T> reading, ThreadStats& stats, const Read& read) {
  if (measures == nullptr || measures->shadow() == nullptr) return read(reading);
  WatchedRead watch(*measures->shadow());
  reading.watch = &watch;
  read(reading);
  stats.count_read(watch.torn());
}

}  // namespace tmflow
