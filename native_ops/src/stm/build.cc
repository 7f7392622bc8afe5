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

// Runs `part(first, count)` on the chunks to be updated or copied, one after another.
template <class Work, class Part>
void for_each_chunk(const Work& work, const Part& part) {
  for (std::size_t first = 0, count = 0; first < work.size; first += count) {
    count = work.chunk < work.size - first ? work.chunk : work.size - first;
    part(first, count);
  }
}

template <template <class, class> class Design, class Manager, class Instrumentation, class T>
void loop(const Update<T>& update, Domain& domain, ThreadStats& stats) {
  for_each_chunk(update, [&](std::size_t first, std::size_t count) {
    atomically<Design, Manager, Build>(domain, stats, [&](Design<Manager, Build>& transaction) {
      return Instrumentation::update(transaction, update.variable + first, update.delta + first, update.alpha,
                                     count);
    });
  });
}

template <class Manager, class T>
void snapshot_loop(const Snapshot<T>& request, Domain& domain, ThreadStats& stats) {
  for_each_chunk(request, [&](std::size_t first, std::size_t count) {
    snapshot<Manager, Build>(domain, stats, request.variable + first, request.into + first, count);
  });
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
