// The gradient of a thread of the audit.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>

#include "tmflow/core/kernel.hpp"
#include "tmflow/measure/audit_code.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow {

// The thread's unit on every element. `write` writes all of it again, with the same values: afterwards its
// lines are modified in the writer's cache and in no other cache, as after a training step has computed its
// gradient.
//
// The values are copied by the kernel with the widest vectors from a pattern of 384 elements, which stays in
// the nearest cache, so writing costs little more than the stores.
template <std::floating_point T>
class alignas(kCacheLine) AuditGradient {
 public:
  AuditGradient(const AuditCode<T>& code, int thread, std::size_t elements) : values_(elements, T{0}) {
    for (std::size_t e = 0; e < kPattern; ++e) pattern_[e] = code.unit(thread, e);
  }

  std::span<const T> values() const noexcept { return values_; }

  void write() noexcept {
    for (std::size_t begin = 0; begin < values_.size(); begin += kPattern) {
      copy_(pattern_.data(), values_.data() + begin, std::min(kPattern, values_.size() - begin));
    }
    clear_upper_halves();
  }

 private:
  static constexpr std::size_t kPattern = 384;
  static_assert(kPattern % AuditCode<T>::kPeriod == 0);

  std::array<T, kPattern> pattern_;
  LinesOf<T> values_;
  const Copy<T> copy_ = find_copy<T>();
};

}  // namespace tmflow
