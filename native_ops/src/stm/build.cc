// The transactional loops, compiled once for each optimisation (cmake/stm.cmake).
//
// Nothing may be shared between the builds, lest the linker keep the copy of the other one: every transaction
// here is an instance for `Build`, a type that is local, and so is the instance; what both builds do share is
// inlined in each (TMFLOW_STM_INLINE), or compiled once (runtime.cc).
#include "build.hpp"

#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/wb_ctl.hpp"
#include "tmflow/stm/wb_etl.hpp"
#include "tmflow/stm/wt.hpp"

namespace tmflow::stm {
namespace {

struct Build : Sound {};

// Only the variable is shared, so only it needs a transaction; its words of a stripe are updated at one go.
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

// As a compiler instruments the study's loop: every element by itself, and gradient and rate through the STM
// too.
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

template <template <class, class> class Design, class Manager, class Instrumentation, class T>
void loop(const Update<T>& update, Domain& domain, ThreadStats& stats) {
  for (std::size_t first = 0, last = 0; first < update.size; first = last) {
    last = update.chunk < update.size - first ? first + update.chunk : update.size;
    atomically<Design, Manager, Build>(domain, stats, [&](Design<Manager, Build>& transaction) {
      return Instrumentation::update(transaction, update.variable + first, update.delta + first, update.alpha,
                                     last - first);
    });
  }
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

const LoopBuild TMFLOW_STM_LOOPS{designed<float>, designed<double>};

}  // namespace tmflow::stm
