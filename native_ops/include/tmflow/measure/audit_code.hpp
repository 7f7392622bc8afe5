// The code of the audit: integers such that the sum of many updates shows which of them are missing.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tmflow {

// What a sum says about the updates in it, in units: one unit is one update of one element.
struct Tally {
  std::int64_t lost = 0;     // units that are missing
  std::int64_t doubled = 0;  // units that are there once too often
  std::int64_t corrupt =
      0;  // elements that no set of their own units explains: their units are in neither count

  void operator+=(const Tally& other) {
    lost += other.lost;
    doubled += other.doubled;
    corrupt += other.corrupt;
  }
};

// The significand of T is divided into a factor and lanes. The unit of thread t on element e is
template <std::floating_point T>
class AuditCode {
 public:
  static constexpr std::size_t kPeriod = 3;  // elements after which a thread's units repeat
  static constexpr int kFactorBits = 3;
  static constexpr int kLanes = std::numeric_limits<T>::digits > 50 ? 4 : 1;
  static constexpr int kLaneBits = (std::numeric_limits<T>::digits - kFactorBits) / kLanes;

  explicit AuditCode(int threads) : threads_(threads) {}

  // The number of updates that each thread may make before the sums must be read.
  int updates_per_round() const {
    const std::int64_t room = (std::int64_t{1} << kLaneBits) - 1;
    return static_cast<int>(room / (2 * threads_in(0)));
  }

  T unit(int thread, std::size_t element) const {
    return static_cast<T>(factor(element) << (kLaneBits * (thread % kLanes)));
  }

  // The number of updates of the threads of each lane.
  using Made = std::array<std::int64_t, kLanes>;

  void count(Made& made, int thread, std::int64_t updates) const {
    made[static_cast<std::size_t>(thread % kLanes)] += updates;
  }

  // Decodes the sum on `element` after `updates` updates by each thread.
  Tally decode(T sum, std::size_t element, int updates) const {
    Made made{};
    for (int thread = 0; thread < threads_; ++thread) count(made, thread, updates);
    return decode(sum, element, made);
  }

  Tally decode(T sum, std::size_t element, const Made& made) const {
    constexpr T limit = static_cast<T>(std::int64_t{1} << std::numeric_limits<T>::digits);
    if (!(sum >= 0 && sum < limit) || sum != std::trunc(sum)) return {.corrupt = 1};
    std::int64_t units = static_cast<std::int64_t>(sum);
    if (units % factor(element) != 0) return {.corrupt = 1};
    units /= factor(element);
    Tally tally;
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool last = lane + 1 == kLanes;
      const std::int64_t found = last ? units : units & ((std::int64_t{1} << kLaneBits) - 1);
      const std::int64_t missing = made[static_cast<std::size_t>(lane)] - found;
      (missing > 0 ? tally.lost : tally.doubled) += std::abs(missing);
      units >>= kLaneBits;
    }
    return tally;
  }

 private:
  static std::int64_t factor(std::size_t element) {
    constexpr std::int64_t primes[kPeriod] = {3, 5, 7};
    return primes[element % kPeriod];
  }

  std::int64_t threads_in(int lane) const { return (threads_ - lane + kLanes - 1) / kLanes; }

  int threads_;
};

}  // namespace tmflow
