// Selects a transactional loop.
#include <algorithm>
#include <iterator>

#include "build.hpp"

namespace tmflow::stm {
namespace {

constexpr std::string_view kDesigns[] = {"wb_etl", "wb_ctl", "wt"};
constexpr std::string_view kManagers[] = {"suicide", "delay", "backoff", "aggressive", "timestamp"};

// The enumerator at the position of its name among `names`.
template <class Kind, std::size_t n>
Kind kind_of(const std::string_view (&names)[n], std::string_view name) noexcept {
  return static_cast<Kind>(std::ranges::find(names, name) - std::begin(names));
}

LoopKind kind_of(const LoopName& name) noexcept {
  return {kind_of<DesignKind>(kDesigns, name.design), kind_of<ManagerKind>(kManagers, name.manager),
          name.instrumentation == "all"};
}

const LoopBuild& build_of(const LoopName& name) noexcept {
  return name.optimisation == "O0" ? loops_O0 : loops_O3;
}

}  // namespace

template <>
Loop<float> find_loop(const LoopName& name) noexcept {
  return build_of(name).of_float(kind_of(name));
}

template <>
Loop<double> find_loop(const LoopName& name) noexcept {
  return build_of(name).of_double(kind_of(name));
}

template <>
SnapshotLoop<float> find_snapshot_loop(const LoopName& name) noexcept {
  return build_of(name).snapshot_of_float(kind_of(name));
}

template <>
SnapshotLoop<double> find_snapshot_loop(const LoopName& name) noexcept {
  return build_of(name).snapshot_of_double(kind_of(name));
}

}  // namespace tmflow::stm
