// Fused updates against the two-step update: the product of the factors, and then the plain loop.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tmflow/core/registry.hpp"

namespace tmflow {
namespace {

template <class T>
class Dense : public testing::Test {
 protected:
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

  // Random weights and factors; a share of the inputs, and some whole rows, are zero.
  void make(std::size_t examples, std::size_t rows, std::size_t columns, double zeros = 0.5) {
    examples_ = examples;
    rows_ = rows;
    columns_ = columns;
    input_ = numbers(examples * rows);
    output_ = numbers(examples * columns);
    weights_ = numbers(rows * columns);
    std::bernoulli_distribution zero(zeros);
    for (T& x : input_) x = zero(random_) ? T{0} : x;
    for (std::size_t row = 0; row < rows; ++row) {
      if (zero(random_)) silence(row);
    }
  }

  void silence(std::size_t row) {
    for (std::size_t e = 0; e < examples_; ++e) input_[e * rows_ + row] = 0;
  }

  std::vector<T> numbers(std::size_t n) {
    std::normal_distribution<T> normal;
    std::vector<T> numbers(n);
    for (T& number : numbers) number = normal(random_);
    return numbers;
  }

  // As the registry passes it to a strategy.
  DenseGradient<T> gradient() const {
    return {.input = input_,
            .output = output_,
            .examples = examples_,
            .output_is_finite = all_finite(std::span<const T>(output_))};
  }

  // The sum of each element's products, in the order of the examples.
  T product(std::size_t i, bool absolute = false) const {
    volatile T sum = 0;  // each product and each sum is rounded separately
    for (std::size_t e = 0; e < examples_; ++e) {
      const volatile T term = input_[e * rows_ + i / columns_] * output_[e * columns_ + i % columns_];
      sum = e == 0 ? (absolute ? std::abs(term) : T{term}) : sum + (absolute ? std::abs(term) : T{term});
    }
    return sum;
  }

  std::vector<T> two_step(std::size_t first, std::size_t count) const {
    std::vector<T> delta(weights_.size()), updated = weights_;
    for (std::size_t i = first; i < first + count; ++i) delta[i] = product(i);
    find_kernel<T>()(updated.data() + first, delta.data() + first, kAlpha, count);
    clear_upper_halves();
    return updated;
  }

  std::vector<T> fused(std::size_t first, std::size_t count, const char* optimisation = "O3") const {
    std::vector<T> updated = weights_;
    const DenseGradient<T> factors = gradient();
    find_dense_kernel<T>(optimisation)(updated.data(), factors, kAlpha, first, count);
    clear_upper_halves();
    return updated;
  }

  // Equal bit for bit; all NaNs count as equal.
  void expect_same(const std::vector<T>& one, const std::vector<T>& other) const {
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (std::isnan(one[i]) && std::isnan(other[i])) continue;
      ASSERT_EQ(std::bit_cast<Bits>(one[i]), std::bit_cast<Bits>(other[i]))
          << "element " << i << " of [" << rows_ << ", " << columns_ << "], " << examples_ << " examples";
    }
  }

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  static constexpr T kAlpha = T(0.3);

  std::mt19937 random_{20171};
  std::size_t examples_ = 0, rows_ = 0, columns_ = 0;
  std::vector<T> input_, output_, weights_;
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Dense, Types);

TYPED_TEST(Dense, AnyRangeOfAnyLayerIsTheTwoStepUpdateToTheBit) {
  constexpr std::size_t kColumns[] = {1, 2, 3, 7, 10, 16, 31, 64, 65, 100, 128, 257};
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t columns = kColumns[this->below(std::size(kColumns))];
    this->make(1 + this->below(trial % 2 == 0 ? 1 : 9), 1 + this->below(20), columns);
    const std::size_t size = this->weights_.size(), first = this->below(size);
    const std::size_t count = trial % 3 == 0 ? size - first : this->below(size - first + 1);
    this->expect_same(this->fused(first, count), this->two_step(first, count));
    this->expect_same(this->fused(first, count, "O0"), this->two_step(first, count));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Also where the output is not finite, and for the rows in between.
TYPED_TEST(Dense, ListedInputsGiveTheSameBits) {
  constexpr std::size_t kWide[] = {31, 64, 65, 100, 128, 257};
  for (int trial = 0; trial < 4000; ++trial) {
    this->make(1, 1 + this->below(20),
               this->below(4) == 0 ? kWide[this->below(std::size(kWide))] : 1 + this->below(20));
    if (trial % 10 == 0) this->output_[this->below(this->output_.size())] = -INFINITY;
    if (trial % 10 == 1) this->input_.assign(this->input_.size(), 0);
    const std::size_t size = this->weights_.size(), first = this->below(size);
    const std::size_t count = trial % 3 == 0 ? size - first : this->below(size - first + 1);
    std::vector<NonZero<TypeParam>> nonzero;
    for (std::size_t row = 0; row < this->rows_; ++row) {
      if (this->input_[row] != 0) nonzero.push_back({static_cast<std::uint32_t>(row), this->input_[row]});
    }
    DenseGradient<TypeParam> factors = this->gradient();
    factors.nonzero = nonzero;
    for (const char* const optimisation : {"O0", "O3"}) {
      std::vector<TypeParam> updated = this->weights_;
      find_dense_kernel<TypeParam>(optimisation)(updated.data(), factors, this->kAlpha, first, count);
      clear_upper_halves();
      this->expect_same(updated, this->fused(first, count));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(Dense, TheLayersOfTheModels) {
  constexpr std::size_t kLayers[][3] = {{1, 3136, 1024}, {1, 1024, 10}, {100, 784, 10}, {10, 784, 128}};
  for (const auto& [examples, rows, columns] : kLayers) {
    this->make(examples, rows, columns);
    const std::size_t size = this->weights_.size();
    this->expect_same(this->fused(0, size), this->two_step(0, size));
    for (const std::size_t block : {columns / 2 + 1, std::size_t{2048}}) {  // in blocks, one after another
      const std::vector<TypeParam> whole = this->two_step(0, size);
      std::vector<TypeParam> updated = this->weights_;
      const DenseGradient<TypeParam> factors = this->gradient();
      const GradientDescent<TypeParam> update{.alpha = this->kAlpha, .dense = &factors};
      ASSERT_EQ(update.size(), size);
      for (std::size_t first = 0; first < size; first += block) {
        update(updated, first, std::min(block, size - first));
      }
      this->expect_same(updated, whole);
    }
  }
}

// For any non-finite output at any position of the range, rows of zeros included.
TYPED_TEST(Dense, WhatIsNotFiniteArrives) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam strange : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (const std::size_t examples : {1, 3}) {
      for (int trial = 0; trial < 200; ++trial) {
        this->make(examples, 6, 37, 0.8);
        this->output_[this->below(this->output_.size())] = strange;
        if (trial % 4 == 0) this->input_[this->below(this->input_.size())] = strange;
        if (trial % 4 == 1) this->weights_[this->below(this->weights_.size())] = strange;
        const std::size_t size = this->weights_.size(), first = this->below(size),
                          count = this->below(size - first) + 1;
        this->expect_same(this->fused(first, count), this->two_step(first, count));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(Dense, FiniteIsAllThatIsNeitherInfiniteNorNaN) {
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> numbers{
      0, TypeParam{-0.0}, Limits::max(), Limits::lowest(), Limits::denorm_min(), -Limits::min()};
  EXPECT_TRUE(all_finite(std::span<const TypeParam>(numbers)));
  EXPECT_TRUE(all_finite(std::span<const TypeParam>()));
  for (const TypeParam strange : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                  -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::vector<TypeParam> with = numbers;
      with[i] = strange;
      EXPECT_FALSE(all_finite(std::span<const TypeParam>(with))) << strange << " at " << i;
    }
  }
}

// The one difference: weights in a row of zeros stay unchanged, also where v - (-0) differs from v.
TYPED_TEST(Dense, ARowOfZerosIsLeftAlone) {
  using Limits = std::numeric_limits<TypeParam>;
  this->make(1, 2, 4, 0);
  this->silence(0);
  this->output_ = {1, -1, 1, -1};
  this->weights_ = {TypeParam{-0.0}, TypeParam{-0.0}, Limits::denorm_min(), 0, 1, 1, 1, 1};
  const std::vector<TypeParam> updated = this->fused(0, 8), reference = this->two_step(0, 8);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(updated[i], reference[i]) << i;  // as numbers: -0 equals 0
    const bool differs = i == 1;               // -0 - 0.3 * (0 * -1) is 0
    EXPECT_EQ(std::signbit(updated[i]) != std::signbit(reference[i]), differs) << i;
  }
  EXPECT_TRUE(std::signbit(updated[1]));
}

// A row of zeros is not even read: this memory is unreadable.
TYPED_TEST(Dense, ARowOfZerosIsNotRead) {
  this->make(2, 3, 5, 1);
  constexpr std::size_t kBytes = 4096;
  void* const closed = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  find_dense_kernel<TypeParam>()(static_cast<TypeParam*>(closed), this->gradient(), this->kAlpha, 4, 9);
  clear_upper_halves();
  munmap(closed, kBytes);
}

// Against the exact sum: each product and each addition has an error of half an ulp of the sum of absolute
// values.
TYPED_TEST(Dense, TheSumIsAsExactAsItsAdditions) {
  this->make(100, 40, 10);
  const std::size_t size = this->weights_.size();
  const std::vector<TypeParam> updated = this->fused(0, size);
  for (std::size_t i = 0; i < size; ++i) {
    long double exact = 0;
    for (std::size_t e = 0; e < 100; ++e) {
      exact += static_cast<long double>(this->input_[e * 40 + i / 10]) * this->output_[e * 10 + i % 10];
    }
    const long double expected = this->weights_[i] - this->kAlpha * exact;
    const long double bound = (this->kAlpha * this->product(i, true) * 101 + std::abs(this->weights_[i])) *
                              std::numeric_limits<TypeParam>::epsilon();
    EXPECT_NEAR(updated[i], expected, static_cast<double>(bound)) << i;
  }
}

// Every strategy that runs the kernel fuses, with the same bits; every other refuses, and changes nothing.
// The NaN must be noticed by the registry and must reach every row.
TYPED_TEST(Dense, EveryStrategyFusesOrRefuses) {
  this->make(3, 50, 33);
  this->output_[40] = std::numeric_limits<TypeParam>::quiet_NaN();
  const std::vector<TypeParam> expected = this->two_step(0, this->weights_.size());
  const DenseGradient<TypeParam> factors = this->gradient();
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process) continue;
    SCOPED_TRACE(listed.info.name);
    std::vector<TypeParam> updated = this->weights_;
    ArrayRegion<TypeParam> region(updated);
    ThreadStats stats;
    const auto strategy = make_strategy<ArrayRegion<TypeParam>>(listed.info.name);
    const GradientDescent<TypeParam> update{.alpha = this->kAlpha, .dense = &factors};
    if (listed.info.runs_kernel) {
      strategy->apply(region, update, stats);
      strategy->settle(region);
      this->expect_same(updated, expected);
      EXPECT_EQ(stats.updates(), 1);
    } else {
      EXPECT_THROW(strategy->apply(region, update, stats), std::invalid_argument);
      this->expect_same(updated, this->weights_);
      EXPECT_EQ(stats.updates(), 0);
    }
  }
}

}  // namespace
}  // namespace tmflow
