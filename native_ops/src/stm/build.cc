// The transactional loops, compiled once for each optimisation (cmake/stm.cmake).
//
// Nothing may be shared between the builds, or the linker may keep the copy of the other build. Every
// transaction here is an instance for `Build`, a local type, so the instance is local too. What both builds
// share is inlined in each (TMFLOW_STM_INLINE), or compiled once (runtime.cc).
#include "build.hpp"

#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/snapshot.hpp"
#include "tmflow/stm/wb_ctl.hpp"
#include "tmflow/stm/wb_etl.hpp"
#include "tmflow/stm/wt.hpp"

namespace tmflow::stm {
namespace {

struct Build : Sound {};

// Only the variable is shared, so only it needs a transaction; its words of a stripe are updated together.
struct OnlyShared {
  template <class Transaction, class T>
  static bool update(Transaction& transaction, T* variable, const T* delta, const T& alpha,
                     std::size_t count) {
    const T rate = alpha;
    while (count > 0) {
      const std::size_t left = words_left(variable), here = left < count ? left : count;
      const auto updated = [=](std::size_t i, T value) { return value - rate * delta[i]; };
      if (!transaction.modify(variable, here, updated)) return false;
      variable += here;
      delta += here;
      count -= here;
    }
    return true;
  }
};

// As a compiler instruments the study's loop: every element separately, and the STM also reads the gradient
// and the rate.
struct All {
  template <class Transaction, class T>
  static bool update(Transaction& transaction, T* variable, const T* delta, const T& alpha,
                     std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      T value{}, gradient{}, rate{};
      if (!transaction.load(variable + i, value) || !transaction.load(&alpha, rate) ||
          !transaction.load(delta + i, gradient) ||
          !transaction.store(variable + i, value - rate * gradient)) {
        return false;
      }
    }
    return true;
  }
};

// The touched elements of a chunk: from `first`, which is in the row with the index `row`, to below `end`.
struct Touched {
  std::size_t row, first, end;
};

template <class T>
std::size_t begin_of(const RowPointers<T>& gradient, std::size_t row) {
  return static_cast<std::size_t>(gradient.rows[row]) * gradient.width;
}

// Runs `part(touched)` on the chunks that the update touches, one after another.
template <class T, class Part>
void for_each_touched_chunk(const Update<T>& update, const Part& part) {
  const RowPointers<T>& gradient = update.gradient;
  std::size_t done = 0;  // the end of the previous chunk
  for (std::size_t row = 0; row < gradient.n;) {
    const std::size_t begin = begin_of(gradient, row), first = begin < done ? done : begin;
    done = (first / update.chunk + 1) * update.chunk;
    part(Touched{row, first, done});
    while (row < gradient.n && begin_of(gradient, row) + gradient.width <= done) ++row;
  }
}

template <class Instrumentation, class Transaction, class T>
bool update_touched(Transaction& transaction, const Update<T>& update, const Touched& touched) {
  const RowPointers<T>& gradient = update.gradient;
  for (std::size_t row = touched.row; row < gradient.n; ++row) {
    const std::size_t begin = begin_of(gradient, row), end = begin + gradient.width;
    if (begin >= touched.end) break;
    const std::size_t first = begin < touched.first ? touched.first : begin;
    const std::size_t stop = end < touched.end ? end : touched.end;
    const T* const values = gradient.values + row * gradient.width + (first - begin);
    if (!Instrumentation::update(transaction, update.variable + first, values, update.alpha, stop - first)) {
      return false;
    }
  }
  return true;
}

template <template <class, class> class Design, class Manager, class Instrumentation, class T>
void loop(const Update<T>& update, Domain& domain, ThreadStats& stats) {
  for_each_touched_chunk(update, [&](const Touched& touched) {
    atomically<Design, Manager, Build>(domain, stats, [&](Design<Manager, Build>& transaction) {
      return update_touched<Instrumentation>(transaction, update, touched);
    });
  });
}

template <class Manager, class T>
void snapshot_loop(const Snapshot<T>& request, Domain& domain, ThreadStats& stats) {
  for (std::size_t first = 0, count = 0; first < request.size; first += count) {
    count = request.chunk < request.size - first ? request.chunk : request.size - first;
    snapshot<Manager, Build>(domain, stats, request.variable + first, request.into + first, count);
  }
}

template <class T>
SnapshotLoop<T> snapshot_managed(const LoopKind& kind) noexcept {
  switch (kind.manager) {
    case ManagerKind::suicide:
      return snapshot_loop<Suicide, T>;
    case ManagerKind::delay:
      return snapshot_loop<Delay, T>;
    case ManagerKind::backoff:
      return snapshot_loop<Backoff, T>;
    case ManagerKind::aggressive:
      return snapshot_loop<Aggressive, T>;
    case ManagerKind::timestamp:
      return snapshot_loop<Timestamp, T>;
  }
  return nullptr;
}

template <template <class, class> class Design, class Manager, class T>
Loop<T> instrumented(const LoopKind& kind) noexcept {
  return kind.instruments_all ? loop<Design, Manager, All, T> : loop<Design, Manager, OnlyShared, T>;
}

template <template <class, class> class Design, class T>
Loop<T> managed(const LoopKind& kind) noexcept {
  switch (kind.manager) {
    case ManagerKind::suicide:
      return instrumented<Design, Suicide, T>(kind);
    case ManagerKind::delay:
      return instrumented<Design, Delay, T>(kind);
    case ManagerKind::backoff:
      return instrumented<Design, Backoff, T>(kind);
    case ManagerKind::aggressive:
      return instrumented<Design, Aggressive, T>(kind);
    case ManagerKind::timestamp:
      return instrumented<Design, Timestamp, T>(kind);
  }
  return nullptr;
}

template <class T>
Loop<T> designed(const LoopKind& kind) noexcept {
  switch (kind.design) {
    case DesignKind::wb_etl:
      return managed<WbEtl, T>(kind);
    case DesignKind::wb_ctl:
      return managed<WbCtl, T>(kind);
    case DesignKind::wt:
      return managed<Wt, T>(kind);
  }
  return nullptr;
}

}  // namespace

const LoopBuild TMFLOW_STM_LOOPS{designed<float>, designed<double>, snapshot_managed<float>,
                                 snapshot_managed<double>};

}  // namespace tmflow::stm
