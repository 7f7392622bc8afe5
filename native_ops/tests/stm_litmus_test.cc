// The STM's litmus tests: what a transaction may see of others, and others of it.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "stm_schedules.hpp"

namespace tmflow::stm {
namespace {

template <class Design>
class Litmus : public ::testing::Test {
 protected:
  template <class Body>
  bool run(const Body& body) {
    return stm::run<Design>(domain, stats, body);
  }

  long value_of(const long& word) {
    long value = 0;
    EXPECT_TRUE(
        stm::run<Reading>(domain, stats, [&](auto& transaction) { return transaction.load(&word, value); }));
    return value;
  }

  Domain domain{1024};
  Cells cells;
  ThreadStats stats;
};
using Designs = ::testing::Types<EncounterTime, CommitTime, WriteThrough>;
TYPED_TEST_SUITE(Litmus, Designs);

TYPED_TEST(Litmus, ATransactionSeesItsOwnWrites) {
  EXPECT_TRUE(this->run([&](auto& transaction) {
    for (long i = 0; i < 3; ++i) {
      if (!add(transaction, this->cells.x.value, 1L) || !add(transaction, this->cells.y.value, 2L))
        return false;
    }
    return true;
  }));
  EXPECT_EQ(this->cells.x.value, 3);
  EXPECT_EQ(this->cells.y.value, 6);
  EXPECT_EQ(this->stats.commits(), 1);
  EXPECT_EQ(this->stats.fallbacks(), 0);
  EXPECT_TRUE(this->stats.aborts().empty());
}

TYPED_TEST(Litmus, NothingUncommittedIsRead) { EXPECT_TRUE((no_uncommitted_read<TypeParam, Sound>())); }

TYPED_TEST(Litmus, ASnapshotIsExtendedOverWhatDoesNotConcernIt) {
  Other other;
  long x = 0, z = 0;
  EXPECT_TRUE(this->run([&](auto& transaction) {
    if (!transaction.load(&this->cells.x.value, x)) return false;
    other.start([&](ThreadStats& own) { increment<TypeParam>(this->domain, own, this->cells.z.value); });
    return transaction.load(&this->cells.z.value, z) && add(transaction, this->cells.x.value, 1L);
  }));
  EXPECT_EQ(z, 1);
  EXPECT_TRUE(this->stats.aborts().empty());
}

TYPED_TEST(Litmus, AReaderWithoutReadSetRestartsInstead) {
  Other other;
  bool first = true;
  long x = 0, z = 0;
  EXPECT_TRUE(stm::run<Reading>(this->domain, this->stats, [&](auto& transaction) {
    if (!transaction.load(&this->cells.x.value, x)) return false;
    if (std::exchange(first, false)) {
      other.start([&](ThreadStats& own) { increment<TypeParam>(this->domain, own, this->cells.z.value); });
    }
    return transaction.load(&this->cells.z.value, z);
  }));
  EXPECT_EQ(z, 1);
  EXPECT_EQ(aborts(this->stats, Cause::read_invalid), 1);
}

TYPED_TEST(Litmus, AnAbortLeavesNothingAndIsNotRepeated) {
  int runs = 0;
  EXPECT_FALSE(this->run([&](auto& transaction) {
    ++runs;
    if (!transaction.store(&this->cells.x.value, 5L)) return false;
    return transaction.abort();
  }));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(this->cells.x.value, 0);
  EXPECT_EQ(this->stats.commits(), 0);
  EXPECT_EQ(aborts(this->stats, Cause::requested), 1);
  increment<TypeParam>(this->domain, this->stats, this->cells.x.value);
  EXPECT_EQ(this->value_of(this->cells.x.value), 1);
}

TYPED_TEST(Litmus, NothingCanBeDoneAfterAnAbort) {
  EXPECT_FALSE(this->run([&](auto& transaction) {
    EXPECT_FALSE(transaction.abort());
    long value = 7;
    EXPECT_FALSE(transaction.load(&this->cells.x.value, value));
    EXPECT_FALSE(transaction.store(&this->cells.y.value, 5L));
    return true;
  }));
  EXPECT_EQ(this->cells.y.value, 0);
}

TYPED_TEST(Litmus, ANestedTransactionIsAPartOfTheOuterOne) {
  const auto inner = [&](auto& transaction) { return add(transaction, this->cells.y.value, 1L); };
  EXPECT_TRUE(this->run([&](auto& transaction) {
    return add(transaction, this->cells.x.value, 1L) && nested(transaction, inner);
  }));
  EXPECT_EQ(this->stats.commits(), 1);
  EXPECT_FALSE(this->run([&](auto& transaction) {
    return add(transaction, this->cells.x.value, 1L) &&
           nested(transaction, [&](auto& same) { return inner(same) && same.abort(); });
  }));
  EXPECT_EQ(this->cells.x.value, 1);
  EXPECT_EQ(this->cells.y.value, 1);
}

TYPED_TEST(Litmus, ANestedAbortThatIsIgnoredAbortsAllTheSame) {
  EXPECT_FALSE(this->run([&](auto& transaction) {
    if (!add(transaction, this->cells.x.value, 1L)) return false;
    EXPECT_FALSE(nested(transaction, [](auto&) { return false; }));
    return true;
  }));
  EXPECT_EQ(this->cells.x.value, 0);
}

TYPED_TEST(Litmus, ATransactionThatDoesNotKnowOfTheOuterOneIsRefused) {
  EXPECT_THROW(this->run([&](auto& transaction) {
    if (!transaction.store(&this->cells.x.value, 5L)) return false;
    increment<TypeParam>(this->domain, this->stats, this->cells.y.value);
    return true;
  }),
               std::logic_error);
  EXPECT_EQ(this->cells.x.value, 0);
}

TYPED_TEST(Litmus, AnExceptionLeavesMemoryAsItWasAndPassesThrough) {
  EXPECT_THROW(this->run([&](auto& transaction) -> bool {
    EXPECT_TRUE(transaction.store(&this->cells.x.value, 5L));
    EXPECT_TRUE(transaction.store(&this->cells.y.value, 6L));
    throw std::runtime_error("in the middle");
  }),
               std::runtime_error);
  EXPECT_EQ(this->cells.x.value, 0);
  EXPECT_EQ(this->cells.y.value, 0);
  EXPECT_EQ(aborts(this->stats, Cause::exception), 1);
  increment<TypeParam>(this->domain, this->stats, this->cells.x.value);  // its lock is free again
  EXPECT_EQ(this->cells.x.value, 1);
}

// The neighbours of a written word in the same stripe are not written: others may write them outside.
TYPED_TEST(Litmus, NeighboursInTheStripeAreLeftAlone) {
  struct alignas(kStripeBytes) {
    float words[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  } stripe;
  EXPECT_FALSE(this->run([&](auto& transaction) {
    EXPECT_TRUE(transaction.store(&stripe.words[1], 10.f) && transaction.store(&stripe.words[6], 60.f));
    stripe.words[0] = stripe.words[7] = -1;
    return transaction.abort();
  }));
  EXPECT_TRUE(this->run([&](auto& transaction) {
    EXPECT_TRUE(transaction.store(&stripe.words[2], 20.f) && transaction.store(&stripe.words[5], 50.f));
    stripe.words[3] = stripe.words[4] = -1;
    return true;
  }));
  EXPECT_EQ(std::vector(std::begin(stripe.words), std::end(stripe.words)),
            (std::vector<float>{-1, 1, 20, -1, -1, 50, 6, -1}));
}

TYPED_TEST(Litmus, WordsOfAStripeAreModifiedLikeWordsByThemselves) {
  struct alignas(kStripeBytes) {
    float words[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  } stripe;
  const auto body = [&](auto& transaction) {
    const auto numbered = [](std::size_t i, float value) { return 10 * value + static_cast<float>(i); };
    if (!transaction.store(&stripe.words[3], 30.f)) return false;
    return transaction.modify(stripe.words + 2, 3, numbered) &&
           transaction.modify(stripe.words, 8, numbered) && add(transaction, stripe.words[7], 1.f);
  };
  const auto words = [&] { return std::vector(std::begin(stripe.words), std::end(stripe.words)); };
  const std::vector<float> before = words();
  EXPECT_FALSE(this->run([&](auto& transaction) { return body(transaction) && transaction.abort(); }));
  EXPECT_EQ(words(), before);
  EXPECT_TRUE(this->run(body));
  EXPECT_EQ(words(), (std::vector<float>{0, 11, 202, 3013, 424, 55, 66, 78}));
}

// All stripes under one lock: every written word must be found again.
TYPED_TEST(Litmus, OneLockForEverythingIsEnough) {
  Domain single(1);
  std::vector<double> words(1000, 0);
  EXPECT_TRUE(stm::run<TypeParam>(single, this->stats, [&](auto& transaction) {
    for (std::size_t i = 0; i < 3 * words.size(); ++i) {
      if (!add(transaction, words[i * 7 % words.size()], 1.0)) return false;
    }
    return true;
  }));
  EXPECT_EQ(words, std::vector<double>(1000, 3));
}

// Sums that never change, checked inside transactions that go on to write and in ones that only read. Every
// thread moves amounts between accounts that share few locks; there are more threads than cores.
template <class Design, class Manager>
void keep_the_sum(std::size_t locks, int threads, int moves) {
  constexpr long kAccounts = 6, kSum = 600;
  Domain domain(locks);
  std::vector<Cell> accounts(kAccounts, Cell{kSum / kAccounts});
  const auto sum_in = [&](auto& transaction, long& sum) {
    sum = 0;
    for (const Cell& account : accounts) {
      long value = 0;
      if (!transaction.load(&account.value, value)) return false;
      sum += value;
    }
    return true;
  };
  std::atomic<long> wrong{0}, commits{0};
  const auto work = [&](int thread) {
    ThreadStats stats;
    long sum = 0;
    for (int move = 0; move < moves; ++move) {
      Cell& from = accounts[static_cast<std::size_t>(thread + move) % kAccounts];
      Cell& to = accounts[static_cast<std::size_t>(thread + 3 * move + 1) % kAccounts];
      run<Design, Manager>(domain, stats, [&](auto& transaction) {
        if (!add(transaction, from.value, -1L) || !add(transaction, to.value, 1L)) return false;
        if (!sum_in(transaction, sum)) return false;
        wrong += sum != kSum;
        return true;
      });
      run<Reading, Manager>(domain, stats, [&](auto& transaction) {
        if (!sum_in(transaction, sum)) return false;
        wrong += sum != kSum;
        return true;
      });
    }
    commits += stats.commits();
  };
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) running.emplace_back(work, thread);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(commits, 2L * threads * moves);
  long sum = 0;
  for (const Cell& account : accounts) sum += account.value;
  EXPECT_EQ(sum, kSum);
}

TYPED_TEST(Litmus, InvariantsHoldInsideTransactions) {
  const int threads = 2 * static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
  for (const std::size_t locks : {2, 4, 1024}) {
    keep_the_sum<TypeParam, Suicide>(locks, threads, 300);
    keep_the_sum<TypeParam, Delay>(locks, threads, 300);
    keep_the_sum<TypeParam, Backoff>(locks, threads, 300);
    keep_the_sum<TypeParam, Aggressive>(locks, threads, 300);
    keep_the_sum<TypeParam, Timestamp>(locks, threads, 300);
  }
}

}  // namespace
}  // namespace tmflow::stm
