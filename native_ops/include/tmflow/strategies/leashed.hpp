// leashed: private copies of the variable, published without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/leashed/versions.hpp"

namespace tmflow {

// Leashed-SGD (K. Bäckström, I. Walulya, M. Papatriantafilou, P. Tsigas: "Consistent Lock-free Parallel
// Stochastic Gradient Descent for Fast and Stable Convergence", IPDPS 2021), with unbounded persistence. An
// update copies the newest version of the variable, updates the copy and publishes it with one
// compare-exchange; if another update was published first, it starts again from that version.
//
// Contract: lock-free; no update is lost, and each sees all earlier updates completely, as does `read`. The
// variable lives in the versions. The first update or read starts from the region's memory. From then on the
// memory does not change until `settle` copies the newest version into it. So a thread that reads the memory
// outside the strategy has no guarantee, because the memory may lack every update, and an assignment of the
// memory takes effect only when `restart` starts from the memory again. Throws std::invalid_argument if the
// memory has another size than at the start.
//
// Memory ordering: see leashed/versions.hpp.
template <template <class> class Atom = std::atomic, class Policy = publish::Sound>
class BasicLeashed {
 public:
  static constexpr StrategyInfo info{
      .name = "leashed",
      .summary = "private copies of the variable, published by one compare-exchange",
      .updates = Consistency::tensor,
      .reads = Consistency::none,  // plain reads may lack every update
      .snapshots = Consistency::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    using T = typename R::Value;
    const auto memory = region.memory(Holding::nothing);
    start(memory);
    Version& next = versions_.claim(memory.size_bytes());
    std::int64_t failed = 0;
    for (;; ++failed) {
      Version& from = *versions_.hold_newest();
      if (updated_copy<T>(from, next, update) && versions_.publish(&from, next)) break;
      versions_.let_go(from);
    }
    stats.count_update();
    stats.count(Contention::failed_publications, failed);
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats&) {
    using T = typename R::Value;
    const auto memory = region.memory(Holding::nothing);
    start(memory);
    Version& newest = *versions_.hold_newest();
    reading(newest.template elements<T>(), 0, memory.size());
    versions_.let_go(newest);
  }

  template <Region R>
  void settle(R& region) {
    using T = typename R::Value;
    if (versions_.newest() == nullptr) return;
    const auto memory = region.memory(Holding::nothing);  // may throw, so nothing may be held yet
    Version& newest = *versions_.hold_newest();
    const Reading<T> into_memory{.into = memory};
    if (newest.bytes() == memory.size_bytes()) into_memory(newest.template elements<T>(), 0, memory.size());
    versions_.let_go(newest);
  }

  template <Region R>
  void restart(R&) noexcept {
    versions_.forget();
  }

 private:
  using Version = publish::Version<Atom>;

  // Copied and updated in one pass, while it is in the nearest cache.
  static constexpr std::size_t kPieceBytes = 8192;

  // Publishes the memory as the first version, unless there is one.
  template <class T>
  void start(std::span<T> memory) {
    const Version* const newest = versions_.newest();
    if (newest != nullptr) {
      if (newest->bytes() == memory.size_bytes()) return;
      throw std::invalid_argument("leashed started with a variable of " +
                                  std::to_string(newest->bytes() / sizeof(T)) + " elements, and it has " +
                                  std::to_string(memory.size()) + " now");
    }
    Version& first = versions_.claim(memory.size_bytes());
    const Reading<T> of_memory{.into = first.template elements<T>()};
    of_memory(memory, 0, memory.size());
    if (!versions_.publish(nullptr, first)) versions_.let_go(first);  // another thread published first
  }

  // Writes the updated `from` into `next`. Returns false, with the copy unfinished, if it notices that `from`
  // is no longer the newest version.
  template <class T>
  bool updated_copy(Version& from, Version& next, const GradientDescent<T>& update) const noexcept {
    const std::span<T> before = from.template elements<T>(), after = next.template elements<T>();
    const Reading<T> copy{.into = after};
    constexpr std::size_t piece = kPieceBytes / sizeof(T);
    for (std::size_t first = 0; first < after.size(); first += piece) {
      if (first > 0 && versions_.newest() != &from) return false;
      const std::size_t count = std::min(piece, after.size() - first);
      copy(before, first, count);
      update(after, first, count);
    }
    return true;
  }

  publish::Versions<Atom, Policy> versions_;
};

using Leashed = BasicLeashed<>;

}  // namespace tmflow
