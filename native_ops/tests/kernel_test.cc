// The kernel that writes only where the gradient is not zero, against the plain loop.
#include "tmflow/core/kernel.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace tmflow {
namespace {

constexpr const char* kBothBuilds[] = {"O0", "O3"};

template <class T>
class SkipZero : public testing::Test {
 protected:
  static constexpr T kAlpha = T{0.3F};

  static std::vector<T> updated(const char* kernel, const char* optimisation, std::vector<T> variable,
                                const std::vector<T>& delta) {
    find_kernel<T>(kernel, optimisation)(variable.data(), delta.data(), kAlpha, variable.size());
    clear_upper_halves();
    return variable;
  }

  static bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
    if (one.size() != other.size()) return false;
    return one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
  }
};

using SkipZeroTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(SkipZero, SkipZeroTypes);

TYPED_TEST(SkipZero, ComputesTheSameBitsAsThePlainLoop) {
  std::mt19937 random(1);
  std::normal_distribution<TypeParam> normal;
  std::bernoulli_distribution zero(0.5);
  for (const char* optimisation : kBothBuilds) {
    for (const std::size_t n : {0, 1, 7, 16, 33, 1000}) {
      std::vector<TypeParam> variable(n), delta(n);
      for (TypeParam& x : variable) x = normal(random);
      for (TypeParam& x : delta) x = zero(random) ? TypeParam{0} : normal(random);
      EXPECT_TRUE(this->same_bits(this->updated("skip_zero", optimisation, variable, delta),
                                  this->updated("plain", "O3", variable, delta)))
          << optimisation << " " << n;
    }
  }
}

TYPED_TEST(SkipZero, WritesNothingWhereTheProductIsZero) {
  constexpr std::size_t kPage = 1 << 16;  // a multiple of every processor's page
  const std::size_t n = kPage / sizeof(TypeParam);
  void* const memory = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::vector<TypeParam> delta(n);
  delta[1] = -TypeParam{0};
  delta[2] = std::numeric_limits<TypeParam>::denorm_min();  // times alpha it is rounded to 0
  for (const char* optimisation : kBothBuilds) {            // a write to this memory would end the process
    find_kernel<TypeParam>("skip_zero", optimisation)(static_cast<TypeParam*>(memory), delta.data(),
                                                      this->kAlpha, n);
    clear_upper_halves();
  }
  munmap(memory, kPage);
}

TYPED_TEST(SkipZero, KeepsANegativeZeroAndWritesNotANumber) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const char* optimisation : kBothBuilds) {
    const auto updated = this->updated("skip_zero", optimisation, {-TypeParam{0}, 1}, {-TypeParam{0}, nan});
    EXPECT_TRUE(std::signbit(updated[0])) << "the plain loop makes it 0";
    EXPECT_TRUE(std::isnan(updated[1]));
  }
}

TYPED_TEST(SkipZero, IsRecognised) {
  for (const char* optimisation : kBothBuilds) {
    EXPECT_TRUE(skips_zeros<TypeParam>(find_kernel<TypeParam>("skip_zero", optimisation)));
    EXPECT_FALSE(skips_zeros<TypeParam>(find_kernel<TypeParam>("plain", optimisation)));
  }
}

}  // namespace
}  // namespace tmflow
