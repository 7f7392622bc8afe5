// One worker of a trial: its memory, and its loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include "tmflow/train/trial.hpp"

namespace tmflow::train {

class alignas(kCacheLine) Trial::Worker {
 public:
  using Clock = std::chrono::steady_clock;

  Worker(Trial& trial, int number, std::size_t batch)
      : trial_(trial),
        number_(number),
        pass_(trial.model_->make_pass(batch)),
        gradients_(trial.placement_, trial.fused_),
        copies_(trial.placement_, [&](std::size_t region) { return copies(trial.regions_[region]->value); }) {
    for (std::size_t variable = 0; variable < trial.shapes_.size(); ++variable) {
      const bool copied = copies(trial.regions_[trial.placement_.places()[variable].region]->value);
      read_.push_back((copied ? copies_ : trial.memory_).variable(variable).data());
    }
    for (int region = 0; region < trial.tracker_.variables(); ++region) {
      stats_.push_back(&trial.tracker_.stats(number, region));
    }
  }

  // The worker's steps; an exception is stored for the caller.
  void loop(const Steps& steps, float learning_rate, std::span<double> losses) noexcept {
    began_ = Clock::now();
    try {
      const auto stride = static_cast<std::size_t>(trial_.plan_.workers);
      for (auto k = static_cast<std::size_t>(number_); k < steps.starts.size(); k += stride) {
        const auto first = static_cast<std::size_t>(steps.starts[k]);
        if (k + stride < steps.starts.size()) {
          steps.set.prefetch(static_cast<std::size_t>(steps.starts[k + stride]));
        }
        const double loss = step(steps.set.batch(first, steps.batch), learning_rate);
        if (!losses.empty()) losses[k] = loss;
      }
    } catch (...) {
      failed_ = std::current_exception();
    }
    ended_ = Clock::now();
  }

  void fail(std::exception_ptr reason) noexcept { failed_ = std::move(reason); }

  Clock::time_point began() const noexcept { return began_; }
  Clock::time_point ended() const noexcept { return ended_; }
  const std::exception_ptr& failed() const noexcept { return failed_; }

 private:
  double step(const Batch<float>& batch, float learning_rate) {
    const std::int64_t version = trial_.tracker_.begin_step();
    for (std::size_t region = 0; region < stats_.size(); ++region) read(region, batch);
    const float loss = pass_->step(read_, batch, gradients_);
    const float rate = trial_.optimiser_.rate(learning_rate);
    for (std::size_t region = 0; region < stats_.size(); ++region) {
      GradientDescent<float> update = gradients_.update(region, rate);
      update.slots = trial_.optimiser_.slots(region);
      apply(trial_.regions_[region]->value, update, *stats_[region]);
    }
    trial_.optimiser_.end_step();
    trial_.tracker_.end_step(number_, version);
    return static_cast<double>(loss);
  }

  // Whether the region is read before the pass, into the worker's own memory; otherwise the pass reads it
  // directly. A plain read is copied too if the region is watched.
  bool copies(const Shared& shared) const noexcept {
    return trial_.plan_.reading == ReadingOf::consistent || shared.watches_reads();
  }

  void read(std::size_t region, const Batch<float>& batch) {
    Shared& shared = trial_.regions_[region]->value;
    const std::size_t width = trial_.placement_.row_width(region);
    if (width != 0 && trial_.plan_.reading == ReadingOf::plain) {  // the pass reads the rows of its examples
      for (std::size_t e = 0; e < batch.examples; ++e) {
        shared.strategy->note_rows(shared.region, batch.nonzero(e), width);
      }
      if (shared.watches_reads()) watch_rows(region, batch, width);
      return;
    }
    if (shared.shadow() == nullptr && sees_own_copy(region)) return;
    measured_read(shared.measures.get(), Reading<float>{.into = copies_.region(region)}, *stats_[region],
                  [&](const Reading<float>& reading) { read(shared, reading, *stats_[region]); });
  }

  // Copies the rows of the batch, each once, and counts whether that read was torn.
  void watch_rows(std::size_t region, const Batch<float>& batch, std::size_t width) {
    rows_.clear();
    for (std::size_t e = 0; e < batch.examples; ++e) {
      for (const NonZero<float>& input : batch.nonzero(e)) rows_.push_back(input.row);
    }
    std::ranges::sort(rows_);
    const auto repeated = std::ranges::unique(rows_);
    rows_.erase(repeated.begin(), repeated.end());

    Shared& shared = trial_.regions_[region]->value;
    const Reading<float> reading{.into = copies_.region(region)};
    const std::span<const float> memory = shared.region.memory(Holding::nothing);
    WatchedRows watch = shared.measures->watch_rows();
    for (const std::int64_t row : rows_) {
      watch.around(row, static_cast<std::size_t>(row) * width, width,
                   [&](std::size_t begin, std::size_t n) { reading(memory, begin, n); });
    }
    stats_[region]->count_read(watch.torn());
  }

  // Whether a consistent read needs no copy, because the strategy keeps one for this worker: then the pass
  // reads that.
  bool sees_own_copy(std::size_t region) {
    if (trial_.plan_.reading != ReadingOf::consistent) return false;
    Shared& shared = trial_.regions_[region]->value;
    const std::span<const float> view = shared.strategy->view(shared.region, *stats_[region]);
    if (view.empty()) return false;
    const std::vector<Place>& places = trial_.placement_.places();
    for (std::size_t variable = 0; variable < places.size(); ++variable) {
      if (places[variable].region == region) read_[variable] = view.data() + places[variable].offset;
    }
    return true;
  }

  // A plain read happens outside the strategy; this notifies the strategy.
  void read(Shared& shared, const Reading<float>& reading, ThreadStats& stats) {
    if (trial_.plan_.reading == ReadingOf::consistent) {
      return shared.strategy->read(shared.region, reading, stats);
    }
    shared.strategy->note_read(shared.region);
    if (!copies(shared)) return;
    const std::span<const float> memory = shared.region.memory(Holding::nothing);
    reading(memory, 0, memory.size());
  }

  void apply(Shared& shared, const GradientDescent<float>& update, ThreadStats& stats) {
    if (shared.measures == nullptr) return shared.strategy->apply(shared.region, update, stats);
    shared.measures->around(update, number_, [&](const GradientDescent<float>& measured) {
      shared.strategy->apply(shared.region, measured, stats);
    });
  }

  Trial& trial_;
  const int number_;
  const std::unique_ptr<Pass<float>> pass_;
  Gradients<float> gradients_;
  RegionMemory<float> copies_;
  std::vector<const float*> read_;   // where each variable is read
  std::vector<ThreadStats*> stats_;  // of each region
  std::vector<std::int64_t> rows_;   // those of a watched read
  Clock::time_point began_, ended_;
  std::exception_ptr failed_;
};

}  // namespace tmflow::train
