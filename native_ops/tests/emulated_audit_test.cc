// Updates in emulated transactions, through the elision that hardware uses: what they compute, what aborts
// them, and that none is lost. Broken copies lose some.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "refused.hpp"
#include "repeated.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/htm/emulated/buffered_update.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/strategies/htm.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::htm {
namespace {

using emulated::Access;
using emulated::HardwareThread;
using emulated::Processor;

const std::string kTsx = "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";
const std::string kPower = "provider=power;line_bytes=128;entries=64;siblings=1;asynchronous=0";

std::vector<std::string> on(const std::string& machine, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"provider=emulated", "machine=" + machine});
  return more;
}

// Memory that begins at a page border, so that the sets of its lines are known.
template <class T>
class Aligned {
 public:
  Aligned(std::size_t size, T value)
      : data_(static_cast<T*>(operator new(size * sizeof(T), kPage))), size_(size) {
    std::ranges::fill(span(), value);
  }
  ~Aligned() { operator delete(data_, kPage); }
  Aligned(const Aligned&) = delete;

  std::span<T> span() { return {data_, size_}; }

 private:
  static constexpr std::align_val_t kPage{4096};
  T* data_;
  std::size_t size_;
};

// Makes one update of so many elements; returns its counts.
template <class T>
std::unique_ptr<ThreadStats> one_update(const std::vector<std::string>& parameters, std::size_t elements) {
  Aligned<T> variable(elements, 0), delta(elements, 1);
  ArrayRegion<T> region(variable.span());
  auto stats = std::make_unique<ThreadStats>();
  const auto strategy = make_strategy<ArrayRegion<T>>("htm", parameters);
  strategy->apply(region, {.alpha = -1, .delta = delta.span()}, *stats);
  EXPECT_EQ(std::ranges::count(variable.span(), T{1}), static_cast<std::ptrdiff_t>(elements));
  EXPECT_EQ(stats->commits() + stats->fallbacks(), 1);
  return stats;
}

TEST(EmulatedUpdate, FitsUpToTheCapacityAndNoFurther) {
  // The variable and the gradient fill the cache; the word of the mutex, read first, may leave it without an
  // abort.
  EXPECT_EQ(one_update<float>(on(kTsx), 4096)->commits(), 1);
  EXPECT_EQ(one_update<float>(on(kTsx), 4097)->aborts(), (ThreadStats::Aborts{{0x8, 5}}));
  EXPECT_EQ(one_update<double>(on(kTsx), 2048)->commits(), 1);
  EXPECT_EQ(one_update<double>(on(kTsx), 2049)->fallbacks(), 1);
  // POWER counts the word too: 31 lines each, plus one.
  EXPECT_EQ(one_update<float>(on(kPower), 31 * 32)->commits(), 1);
  EXPECT_EQ(one_update<float>(on(kPower), 31 * 32 + 1)->aborts(),
            (ThreadStats::Aborts{{0x0120'0000'1800'0001, 5}}));
  EXPECT_EQ(one_update<float>(on(kPower, {"chunk=992"}), 31 * 32)->commits(), 1);
}

TEST(EmulatedUpdate, SpendsItsBudgetByItsMachinesWord) {
  EXPECT_EQ(attempts(*one_update<float>(on(kPower, {"budget=100", "spending=study_power"}), 7850)), 50);
  EXPECT_EQ(attempts(*one_update<float>(on(kTsx, {"budget=100", "spending=tuned"}), 7850)), 1);
  EXPECT_EQ(attempts(*one_update<float>(on(kTsx, {"budget=0"}), 10)), 0);
}

template <class T>
class EmulatedKernel : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmulatedKernel, Types);

TYPED_TEST(EmulatedKernel, ComputesTheSameBits) {
  using T = TypeParam;
  for (const std::string kernel : {"plain", "eigen"}) {
    for (const std::string optimisation : {"O0", "O3"}) {
      for (const std::size_t size : {0, 1, 7, 1000, 5003}) {
        for (const std::size_t offset : {0, 1, 5}) {  // some do not begin at a line border
          std::vector<T> memory(size + offset), delta(size);
          for (std::size_t i = 0; i < size; ++i) {
            memory[i + offset] = static_cast<T>(i) / 7;
            delta[i] = static_cast<T>(1) / static_cast<T>(i + 3);
          }
          std::vector<T> expected(memory.begin() + static_cast<std::ptrdiff_t>(offset), memory.end());
          const T alpha = T{0.3};
          find_kernel<T>(kernel, optimisation)(expected.data(), delta.data(), alpha, size);
          clear_upper_halves();
          ArrayRegion<T> region{std::span<T>(memory).subspan(offset)};
          ThreadStats stats;
          const auto parameters = on(kTsx, {"kernel=" + kernel, "optimisation=" + optimisation, "chunk=600"});
          make_strategy<ArrayRegion<T>>("htm", parameters)
              ->apply(region, {.alpha = alpha, .delta = delta}, stats);
          EXPECT_TRUE(std::ranges::equal(region.memory(Holding::nothing), expected));
          EXPECT_EQ(stats.commits(), static_cast<std::int64_t>((size + 599) / 600));
        }
      }
    }
  }
}

// Keeps a transaction of another thread open on the given accesses while `during` runs; returns how the
// transaction ends.
template <class During>
std::uint64_t held_open(const std::string& machine, std::initializer_list<Access> accesses,
                        const During& during) {
  Processor& processor = Processor::of(machine);
  HardwareThread other(processor);
  other.begin();
  EXPECT_TRUE(other.access(accesses));
  during();
  Ended why;
  return other.commit(why, [] {}) ? 0 : why.status;
}

class EmulatedOthers : public ::testing::Test {
 protected:
  Access subscription() { return Access::read(elidable(region_.mutex()).word, sizeof(std::uint32_t)); }
  void apply(const std::vector<std::string>& parameters) {
    make_strategy<ArrayRegion<float>>("htm", parameters)
        ->apply(region_, {.alpha = -1, .delta = delta_.span()}, stats_);
  }
  void note_read(const std::vector<std::string>& parameters) {
    make_strategy<ArrayRegion<float>>("htm", parameters)->note_read(region_);
  }

  Aligned<float> variable_{64, 0}, delta_{64, 1};
  ArrayRegion<float> region_{variable_.span()};
  ThreadStats stats_;
};

TEST_F(EmulatedOthers, AFallbackAbortsSubscribers) {
  EXPECT_EQ(held_open(kTsx, {subscription()}, [&] { apply(on(kTsx, {"budget=0"})); }), 0x6);
  EXPECT_EQ(held_open(kPower, {subscription()}, [&] { apply(on(kPower, {"budget=0"})); }),
            0x0008'0000'1800'0001);
  EXPECT_EQ(held_open(kTsx, {subscription()}, [&] { apply(on(kTsx)); }), 0) << "a commit does not";
  const auto ours = on(kTsx, {"budget=0", "subscription=ours"});
  EXPECT_EQ(held_open(kTsx, {subscription()}, [&] { apply(ours); }), 0) << "another mutex does not";
}

HardwareThread* subscriber = nullptr;
bool aborted_before_writing = false;

TEST_F(EmulatedOthers, AFallbackAbortsThemBeforeItWrites) {
  Processor& processor = Processor::of(kTsx);
  HardwareThread other(processor);
  subscriber = &other;
  other.begin();
  ASSERT_TRUE(other.access({subscription()}));
  const GradientDescent<float> update{
      .alpha = -1, .delta = delta_.span(), .kernel = [](float*, const float*, float, std::size_t) noexcept {
        aborted_before_writing = !subscriber->access({});
      }};
  kEmulated.run(ElidedUpdate<float>{update, variable_.span(), 64, &processor}, elidable(region_.mutex()),
                {.attempts = 0, .spending = Spending::study_tsx}, stats_);
  EXPECT_TRUE(aborted_before_writing);
}

TEST_F(EmulatedOthers, AFallbackAbortsReadersOfWhatItWrites) {
  const Access element = Access::read(&variable_.span()[20], sizeof(float));
  const auto ours = on(kTsx, {"budget=0", "subscription=ours"});
  EXPECT_EQ(held_open(kTsx, {element}, [&] { apply(ours); }), 0x6);
  EXPECT_EQ(held_open(kTsx, {Access::read(&delta_.span()[20], 4)}, [&] { apply(ours); }), 0);
}

TEST_F(EmulatedOthers, AReaderAbortsWritersAndSubscribers) {
  float& element = variable_.span()[20];
  EXPECT_EQ(held_open(kTsx, {Access::written(&element, 4)}, [&] { note_read(on(kTsx)); }), 0x6);
  EXPECT_EQ(held_open(kTsx, {Access::read(&element, 4)}, [&] { note_read(on(kTsx)); }), 0);
  EXPECT_EQ(held_open(kTsx, {subscription()}, [&] { note_read(on(kTsx)); }), 0x6);
  EXPECT_EQ(stats_.updates(), 0);
}

TEST_F(EmulatedOthers, AReaderOfRowsAbortsTheirWriters) {
  const std::vector<NonZero<float>> rows{{.row = 1, .value = 1}, {.row = 3, .value = 1}};
  const auto read = [&] { make_strategy<ArrayRegion<float>>("htm", on(kTsx))->note_rows(region_, rows, 16); };
  for (const std::size_t row : {0, 1, 2, 3}) {  // rows of one cache line each
    const Access written = Access::written(&variable_.span()[row * 16 + 15], sizeof(float));
    EXPECT_EQ(held_open(kTsx, {written}, read), row % 2 == 1 ? 0x6 : 0) << row;
  }
  EXPECT_EQ(held_open(kTsx, {subscription()}, read), 0) << "no mutex is locked for it";
}

// A model of one variable of four rows, one cache line each. Its pass only looks whether `other` still runs.
class Looking final : public train::Model<float> {
 public:
  static constexpr std::size_t kRows = 4, kWidth = 16;

  explicit Looking(HardwareThread& other) : other_(other) {}

  std::vector<train::VariableShape> variables() const override {
    return {{.name = "rows", .rows = kRows, .columns = kWidth, .by_rows = true}};
  }
  std::size_t pixels() const override { return kRows; }
  bool takes_images() const override { return false; }
  std::size_t classes() const override { return 1; }
  std::unique_ptr<train::Pass<float>> make_pass(std::size_t) const override {
    return std::make_unique<Look>(*this);
  }

  mutable bool other_aborted = false;

 private:
  struct Look final : train::Pass<float> {
    explicit Look(const Looking& model) : model(model) {}

    float step(std::span<const float* const>, const train::Batch<float>&,
               train::Gradients<float>& gradients) override {
      model.other_aborted = !model.other_.access({});
      gradients.rows(0, none);
      return 0;
    }

    const Looking& model;
    const RowGradient<float> none{.rows = {}, .values = {}, .width = kWidth, .elements = kRows * kWidth};
  };

  HardwareThread& other_;
};

// Before the pass of a step, so that its update cannot be what aborts.
TEST(EmulatedTraining, AStepNoticesItsPlainReadsOfRows) {
  const std::vector<std::int32_t> rows{1, 3};  // of the only example
  const std::vector<float> labels{1};
  const train::TrainingSet set = train::TrainingSet::of_features(rows, 2, labels, Looking::kRows, 1);
  const std::vector<std::int64_t> starts{0};
  for (const std::size_t row : {0, 1, 2, 3}) {
    HardwareThread other(Processor::of(kTsx));
    auto looking = std::make_unique<const Looking>(other);
    const Looking& model = *looking;
    train::Trial trial(std::move(looking), {.strategy = "htm", .parameters = on(kTsx)});
    other.begin();
    ASSERT_TRUE(other.access({Access::written(&trial.variable(0)[row * Looking::kWidth], sizeof(float))}));
    trial.run({set, starts, 1}, 0.1F, {});
    EXPECT_EQ(model.other_aborted, row % 2 == 1) << row;
    Ended why;
    other.commit(why, [] {});
  }
}

TEST_F(EmulatedOthers, ATakenMutexIsFoundTaken) {
  Processor& processor = Processor::of(kTsx);
  const ElidableMutex mutex = elidable(region_.mutex());
  const std::lock_guard held(region_.mutex());
  HardwareThread& thread = processor.here();
  thread.begin();
  ASSERT_TRUE(thread.access({subscription()}));
  ASSERT_TRUE(mutex.taken());
  thread.abort();
  Ended why;
  EXPECT_FALSE(thread.commit(why, [] {}));
  EXPECT_EQ(why.status, 0x1e000001);
}

class EmulatedAudit : public ::testing::TestWithParam<std::tuple<int, std::string, std::string>> {};

TEST_P(EmulatedAudit, LosesNothing) {
  const auto& [threads, machine, subscription] = GetParam();
  for (const std::string budget : {"0", "2", "100"}) {
    for (const std::int64_t elements : {1, 100, 1500}) {  // the last is too large for POWER
      const auto parameters = on(machine, {"budget=" + budget, "subscription=" + subscription});
      const auto strategy = make_strategy<ArrayRegion<double>>("htm", parameters);
      const int updates = repeated(threads > 4 ? 30 : 150);  // many threads take turns on few processors
      const AuditReport report =
          audit<double>(*strategy, {.threads = threads, .updates = updates, .elements = elements});
      EXPECT_TRUE(report.clean()) << "budget " << budget << ", " << elements << " elements";
      EXPECT_EQ(report.counted, updates * threads);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, EmulatedAudit,
                         ::testing::Combine(::testing::Values(1, 2, 4, 16), ::testing::Values(kTsx, kPower),
                                            ::testing::Values("variable", "ours")));

// Two threads in step: one reads for its transaction, then the other updates under the mutex, then the first
// commits, or takes the mutex if it was aborted. If the fallback does not report its accesses to the
// processor, one of every two updates is lost.
template <bool kNotifies>
class FallbackInTheMiddle {
 public:
  template <class R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    Processor& processor = Processor::of(kTsx);
    if (turn_++ % 2 == 0) {
      HardwareThread& thread = processor.here();
      emulated::BufferedUpdate<typename R::Value> inside(thread, 64, update, memory, 0, memory.size());
      thread.begin();
      thread.access({Access::read(elidable(region.mutex()).word, sizeof(std::uint32_t))});
      inside();
      has_read_.arrive_and_wait();
      has_written_.arrive_and_wait();
      Ended why;
      const bool committed = thread.commit(why, [&] { inside.publish(); });
      committed ? stats.count_update() : Lock().apply(region, update, stats);
    } else {
      has_read_.arrive_and_wait();
      if (kNotifies) {
        kEmulated.run(ElidedUpdate<typename R::Value>{update, memory, memory.size(), &processor},
                      elidable(region.mutex()), {.attempts = 0, .spending = Spending::study_tsx}, stats);
        stats.count_update();
      } else {
        Lock().apply(region, update, stats);
      }
      has_written_.arrive_and_wait();
    }
    ended_.arrive_and_wait();
  }

 private:
  std::atomic<int> turn_{0};
  std::barrier<> has_read_{2}, has_written_{2}, ended_{2};
};

// A transaction that ignores aborts: it continues and makes its writes.
class WithoutLooking {
 public:
  static constexpr AuditPlan kPlan{.threads = 4, .updates = 500, .elements = 1000};

  template <class R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    using T = typename R::Value;
    HardwareThread& thread = Processor::of(kTsx).here();
    const std::span<T> memory = region.memory(Holding::nothing);
    thread.begin();
    std::vector<T> buffer;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      thread.access({Access::written(&memory[i], sizeof(T))});
      buffer.push_back(std::atomic_ref(memory[i]).load());
    }
    update(buffer, 0, buffer.size());
    for (std::size_t i = 0; i < memory.size(); ++i) std::atomic_ref(memory[i]).store(buffer[i]);
    Ended why;
    thread.commit(why, [] {});
    stats.count_update();
  }
};

// One lost update in any of the tries is enough.
template <class Broken>
std::int64_t lost_by() {
  std::int64_t lost = 0;
  for (int tries = 0; tries < 50 && lost == 0; ++tries) {
    Broken broken;
    lost = audit<double>(broken, Broken::kPlan).tally.lost;
  }
  return lost;
}

TEST(EmulatedAuditCatches, AFallbackThatDoesNotNotifyTheProcessor) {
  constexpr AuditPlan plan{.threads = 2, .updates = 100, .elements = 50};
  FallbackInTheMiddle<false> broken;
  EXPECT_EQ(audit<double>(broken, plan).tally.lost, 100 * 50);
  FallbackInTheMiddle<true> right;
  EXPECT_TRUE(audit<double>(right, plan).clean());
}

TEST(EmulatedAuditCatches, ATransactionThatCommitsAlthoughItWasAborted) {
  EXPECT_GT(lost_by<WithoutLooking>(), 0);
}

TEST(EmulatedParameters, BelongTogether) {
  const auto fails = [](const std::vector<std::string>& given) { return refusal("htm", given); };
  EXPECT_EQ(fails(on(kTsx)), "");
  EXPECT_EQ(fails({"provider=emulated"}), "provider emulated of strategy 'htm' needs a machine");
  EXPECT_EQ(fails({"provider=rtm", "machine=" + kTsx}),
            "machine of strategy 'htm' is for provider emulated, not for rtm");
  EXPECT_EQ(fails({"provider=emulated", "machine=provider=rtm;line_bytes=64"}),
            "the emulated machine: siblings is missing");
  EXPECT_EQ(why_not("htm", on(kTsx)), std::nullopt);
  const std::string other = kNative == "rtm" ? "power" : "rtm";
  EXPECT_TRUE(why_not("htm", std::vector{"provider=" + other}).has_value());
}

}  // namespace
}  // namespace tmflow::htm
