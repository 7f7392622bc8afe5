// Which build of the transactional loops is asked for.
#include "build.hpp"

namespace tmflow::stm {
namespace {

const LoopBuild& build(const LoopName& name) noexcept {
  return name.optimisation == "O0" ? loops_O0 : loops_O3;
}

}  // namespace

template <>
Loop<float> find_loop(const LoopName& name) noexcept {
  return build(name).of_float(name);
}

template <>
Loop<double> find_loop(const LoopName& name) noexcept {
  return build(name).of_double(name);
}

}  // namespace tmflow::stm
