// Transactions that elide the mutexes of a variable and of its optimiser's slots, as the study's
// TM_BEGIN_ADAM.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/htm/emulated/processor.hpp"
#include "tmflow/htm/mutex_word.hpp"

namespace tmflow::htm {
namespace {

using emulated::Access;
using emulated::HardwareThread;
using emulated::Processor;

constexpr char kMachine[] =
    "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";

// Locks are taken in the order of their addresses, whatever the order in which they were added.
TEST(ElidableMutexes, AreTakenIfOneOfThemIs) {
  std::array<std::mutex, 3> mutexes;
  ElidableMutexes all = elidable(mutexes[1]);
  all.add(elidable(mutexes[2]));
  all.add(elidable(mutexes[0]));
  EXPECT_FALSE(all.taken());
  for (std::mutex& one : mutexes) {
    const std::lock_guard held(one);
    EXPECT_TRUE(all.taken());
  }
  std::vector<const void*> words;
  all.for_each_word([&](const std::uint32_t* word) { words.push_back(word); });
  EXPECT_EQ(words, (std::vector<const void*>{&mutexes[0], &mutexes[1], &mutexes[2]}));
  {
    const std::lock_guard held(all);
    for (std::mutex& one : mutexes) EXPECT_FALSE(one.try_lock());
  }
  EXPECT_FALSE(all.taken());
  for (std::mutex& one : mutexes) EXPECT_TRUE(one.try_lock());
  for (std::mutex& one : mutexes) one.unlock();
}

// A variable with two slots, as Adam's.
class SlotMutexes : public ::testing::Test {
 protected:
  // One update of it; the kernel looks which mutexes are locked.
  void apply(std::vector<std::string> parameters, const Slots<float>* slots) {
    parameters.insert(parameters.end(), {"provider=emulated", std::string("machine=") + kMachine});
    region_under_update = &region_;
    make_strategy<ArrayRegion<float>>("htm", parameters)
        ->apply(region_, {.alpha = 1, .delta = delta_, .slots = slots}, stats_);
  }
  void apply(std::vector<std::string> parameters) { apply(std::move(parameters), &slots_); }

  // Whether an update by a transaction ends in a commit, although another thread locks and unlocks the mutex
  // of a slot while the transaction runs.
  bool commits_despite(std::size_t slot, const std::string& subscription) {
    HardwareThread other(Processor::of(kMachine));
    intruder = &other;
    intruded = elidable(region_.slot_mutexes()[slot]).word;
    const std::int64_t before = stats_.commits();
    apply({"budget=1", "subscription=" + subscription});
    intruder = nullptr;
    return stats_.commits() > before;
  }

  static inline ArrayRegion<float>* region_under_update = nullptr;
  static inline std::vector<bool> locked;
  static inline HardwareThread* intruder = nullptr;
  static inline const std::uint32_t* intruded = nullptr;

  static void look(float*, float* const*, const float*, float, const Hyperparameters<float>&,
                   std::size_t) noexcept {
    locked = {elidable(region_under_update->mutex()).taken()};
    for (std::mutex& mutex : region_under_update->slot_mutexes()) locked.push_back(elidable(mutex).taken());
    if (intruder != nullptr) intruder->notice({Access::written(intruded, sizeof *intruded)});
  }

  std::vector<float> variable_ = std::vector<float>(8), first_ = variable_, second_ = variable_,
                     delta_ = std::vector<float>(8, 1);
  ArrayRegion<float> region_{std::span<float>(variable_)};
  Slots<float> slots_{.kernel = look, .hyper = {}, .memory = {first_.data(), second_.data()}};
  ThreadStats stats_;
};

TEST_F(SlotMutexes, AreLockedByAFallbackThatSubscribesToThem) {
  apply({"budget=0", "subscription=slots"});
  EXPECT_EQ(locked, (std::vector<bool>{true, true, true}));
  apply({"budget=0", "subscription=variable"});
  EXPECT_EQ(locked, (std::vector<bool>{true, false, false}));
  apply({"budget=0", "subscription=ours"});
  EXPECT_EQ(locked, (std::vector<bool>{false, false, false}));
  slots_.memory[1] = nullptr;  // one slot, as momentum's
  apply({"budget=0", "subscription=slots"});
  EXPECT_EQ(locked, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(stats_.fallbacks(), 4);
}

TEST_F(SlotMutexes, AreReadByTheTransaction) {
  for (const std::size_t slot : {0, 1}) {
    EXPECT_FALSE(commits_despite(slot, "slots")) << slot;
    EXPECT_TRUE(commits_despite(slot, "variable")) << slot;
    EXPECT_TRUE(commits_despite(slot, "ours")) << slot;
  }
  EXPECT_EQ(stats_.fallbacks(), 2);
}

TEST_F(SlotMutexes, AreRefusedWithoutSlots) {
  try {
    apply({"subscription=slots"}, nullptr);
    ADD_FAILURE() << "not refused";
  } catch (const std::invalid_argument& refused) {
    EXPECT_STREQ(
        refused.what(),
        "subscription slots of strategy 'htm' needs an optimiser with slots: momentum, adagrad or adam");
  }
  EXPECT_EQ(variable_, std::vector<float>(8));
}

}  // namespace
}  // namespace tmflow::htm
