#include "runner/numpy_random.hpp"

#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace tmflow::runner {
namespace {

// NumPy's SeedSequence (numpy/random/bit_generator.pyx), for two words of entropy.
class SeedSequence {
 public:
  SeedSequence(std::uint32_t seed, std::uint32_t stream) : pool_{seed, stream} {
    for (std::uint32_t& word : pool_) word = hashed(word, 0x931e8875);
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mixed(pool_[to], hashed(pool_[from], 0x931e8875));
      }
    }
    constant_ = 0x8b51f9dd;
  }

  std::uint64_t next64() {
    const std::uint64_t low = next32();
    return low | std::uint64_t{next32()} << 32;
  }

 private:
  std::uint32_t next32() { return hashed(pool_[given_++ % pool_.size()], 0x58f38ded); }

  std::uint32_t hashed(std::uint32_t word, std::uint32_t multiplier) {
    word ^= constant_;
    constant_ *= multiplier;
    word *= constant_;
    return word ^ word >> 16;
  }

  static std::uint32_t mixed(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t both = x * 0xca01f9dd - y * 0x4973f715;
    return both ^ both >> 16;
  }

  std::array<std::uint32_t, 4> pool_;
  std::uint32_t constant_ = 0x43b0d7e5;
  std::size_t given_ = 0;
};

}  // namespace

NumpyRandom::NumpyRandom(std::uint32_t seed, std::uint32_t stream) {
  SeedSequence sequence(seed, stream);
  const auto wide = [&] {
    const Wide high = sequence.next64();
    return high << 64 | sequence.next64();
  };
  const Wide start = wide();
  increment_ = wide() << 1 | 1;
  next64();
  state_ += start;
  next64();
}

std::uint64_t NumpyRandom::next64() {
  constexpr Wide kMultiplier = Wide{0x2360ed051fc65da4} << 64 | 0x4385df649fccf645;
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyRandom::next32() {
  if (std::exchange(has_kept_, !has_kept_)) return kept_;
  const std::uint64_t both = next64();
  kept_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

// Lemire, "Fast Random Integer Generation in an Interval" (2019). A range of one number draws nothing.
std::int64_t NumpyRandom::integers(std::uint32_t high) {
  if (high == 1) return 0;
  std::uint64_t product = std::uint64_t{next32()} * high;
  if (static_cast<std::uint32_t>(product) < high) {
    const std::uint32_t threshold = -high % high;
    while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next32()} * high;
  }
  return static_cast<std::int64_t>(product >> 32);
}

std::uint32_t NumpyRandom::at_most(std::uint32_t last) {
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(last);
  std::uint32_t drawn = 0;
  do {
    drawn = next32() & mask;
  } while (drawn > last);
  return drawn;
}

std::vector<std::int64_t> NumpyRandom::permutation(std::uint32_t n) {
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t i = n; i > 1; --i) {
    std::swap(order[i - 1], order[at_most(i - 1)]);
  }
  return order;
}

double NumpyRandom::uniform(double low, double high) {
  const double unit = static_cast<double>(next64() >> 11) * 0x1p-53;
  return low + (high - low) * unit;
}

}  // namespace tmflow::runner
