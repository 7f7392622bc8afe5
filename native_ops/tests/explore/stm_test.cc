// stm under every schedule: its designs and managers, on two words with a lock each.
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "expected.hpp"
#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/memory.hpp"
#include "tmflow/stm/snapshot.hpp"
#include "tmflow/stm/wb_ctl.hpp"
#include "tmflow/stm/wb_etl.hpp"
#include "tmflow/stm/wt.hpp"

namespace tmflow::stm {

// The words that transactions touch, each access a step of the order that word.hpp says.
template <>
struct Words<explore::Atom> {
  template <Word T>
  static T load_acquire(const T* address) noexcept {
    return load(address, WordOrders::kLoad);
  }
  template <Word T>
  static T load_owned(const T* address) noexcept {
    return load(address, WordOrders::kLoadOwned);
  }
  template <Word T>
  static void store_release(T* address, T value) noexcept {
    explore::Ref<T>(*address).store(value, static_cast<std::memory_order>(WordOrders::kStore));
  }

 private:
  template <Word T>
  static T load(const T* address, int order) noexcept {
    return explore::Ref<T>(const_cast<T&>(*address)).load(static_cast<std::memory_order>(order));
  }
};

namespace {

using explore::Plan;
using Descriptor = BasicDescriptor<explore::Atom>;
using Descriptors = std::array<std::unique_ptr<Descriptor>, explore::kMostThreads>;

Descriptors* descriptors = nullptr;  // of the execution under way, one for each thread

}  // namespace

template <>
BasicDescriptor<explore::Atom>& BasicDescriptor<explore::Atom>::of_this_thread() {
  auto& own = (*descriptors)[static_cast<std::size_t>(explore::running_thread())];
  if (own == nullptr) own = std::make_unique<BasicDescriptor>();
  return *own;
}
template class BasicDomain<explore::Atom>;
template class BasicReadSet<explore::Atom>;
template class BasicWriteSet<explore::Atom>;
template class BasicDescriptor<explore::Atom>;
template class BasicClaim<explore::Atom>;

namespace {

struct Explored : Sound {
  using Domain = BasicDomain<explore::Atom>;
};

// An attempt that met a lock meets it again, by the same steps, until another thread has changed something
// that it read: so the next one waits for that, and no fairness is needed to come to an end.
template <class Manager>
struct Patient : Manager {
  static void before_retry(auto&, std::uint64_t, const auto* contended) noexcept {
    if (contended != nullptr) explore::wait();
  }
};

// Kills once in a transaction at most: two that kill each other again and again need luck to come to an end.
struct KillsOnce : Patient<Aggressive> {
  static void enter(auto&, auto&) noexcept { mine() = 0; }
  static bool insists(const auto&, const auto&) noexcept { return mine()++ == 0; }

 private:
  static int& mine() noexcept {
    static std::array<int, explore::kMostThreads> kills;
    return kills[static_cast<std::size_t>(explore::running_thread())];
  }
};

// As a compiler instruments the loop.
struct ByElement {
  static bool update(auto& transaction, std::span<double> memory, std::span<const double> delta) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      double value{};
      if (!transaction.load(&memory[i], value) || !transaction.store(&memory[i], value - delta[i]))
        return false;
    }
    return true;
  }
};

// As `shared` does it.
struct ByStripe {
  static bool update(auto& transaction, std::span<double> memory, std::span<const double> delta) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto updated = [&](std::size_t, double value) { return value - delta[i]; };
      if (!transaction.modify(&memory[i], 1, updated)) return false;
    }
    return true;
  }
};

// The update as one transaction, and a reading as another one, which locks after `readings` vain attempts.
template <template <class, class> class Design, class Loop = ByElement, class Manager = Patient<Suicide>,
          class Policy = Explored, int readings = kReadings>
class Transactional {
 public:
  Transactional() { descriptors = &descriptors_; }

  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const auto body = [&](auto& transaction) { return Loop::update(transaction, memory, update.delta); };
    explore::require(atomically<Design, Manager, Policy>(domain_, stats, body), "it gave up");
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const tmflow::Reading<double>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    snapshot<Manager, Policy, double>(domain_, stats, memory.data(), reading.into.data(), memory.size(),
                                      readings);
  }

 private:
  Descriptors descriptors_;
  Explored::Domain domain_{2};
};

constexpr Plan kTwo{.first = 3};  // the elements have a lock each
constexpr Plan kThree{.updaters = 3, .again = 0, .elements = 1, .block = 1};
constexpr Plan kTwoOnce{.again = 0, .first = 3};
constexpr Plan kOne{.elements = 1, .block = 1};
constexpr Plan kOneOnce{.again = 0, .elements = 1, .block = 1};
constexpr Plan kOneAndRead{.again = 0, .read_own = true, .elements = 1, .block = 1};
constexpr Plan kReader{.updaters = 1, .readers = 1, .first = 3};
constexpr Plan kReaderOnce{.updaters = 1, .again = 0, .readers = 1, .first = 3};
constexpr Plan kReading{.updaters = 1, .readers = 1, .readings = 1, .first = 3};
constexpr Plan kReadingOnce{.updaters = 1, .again = 0, .readers = 1, .readings = 1, .first = 3};
constexpr Plan kOneReader{.updaters = 1, .again = 0, .readers = 1, .elements = 1, .block = 1};

using explore::expect_found;
using explore::expect_proven;
using explore::hold_to_promise;

template <template <class, class> class Design, int readings, class Manager = Patient<Suicide>,
          class Policy = Explored>
using WithReadings = Transactional<Design, ByElement, Manager, Policy, readings>;

template <template <class, class> class Design>
void keeps_the_promise(const std::string& name) {
  expect_proven(name + ", 2 updaters x 2 locks, once each", hold_to_promise<Transactional<Design>>(kTwoOnce));
  expect_proven(name + ", 2 updaters x 2 locks, by stripes, once each",
                hold_to_promise<Transactional<Design, ByStripe>>(kTwoOnce));
  expect_proven(name + ", 2 updaters x 1 lock", hold_to_promise<Transactional<Design, ByStripe>>(kOne));
  expect_proven(name + ", 2 updaters x 2 locks, by stripes, once each, delay",
                hold_to_promise<Transactional<Design, ByStripe, Delay>>(kTwoOnce));
  expect_proven(name + ", 1 updater, 1 reading, 2 locks", hold_to_promise<Transactional<Design>>(kReading));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once",
                hold_to_promise<Transactional<Design>>(kReaderOnce));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once, the reader locks after one attempt",
                hold_to_promise<WithReadings<Design, 1>>(kReaderOnce));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once, the reader locks at once",
                hold_to_promise<WithReadings<Design, 0>>(kReaderOnce));
}

// Every updater then reads.
template <template <class, class> class Design>
void keeps_the_promise_reading(const std::string& name) {
  expect_proven(name + ", 2 updaters that read x 1 lock, once each",
                hold_to_promise<Transactional<Design, ByStripe>>(kOneAndRead));
}

// Three words with a lock each, and transactions of two threads on them. No attempt may see words of
// different states, whether it commits or not.
template <template <class, class> class Design>
class Three {
 public:
  explicit Three(std::array<double, 3> values) {
    descriptors = &descriptors_;
    for (std::size_t i = 0; i < 3; ++i) *word(i) = values[i];
  }

  double* word(std::size_t i) { return &memory_[i * (kStripeBytes / sizeof(double))]; }

  template <class Body>
  void run(const Body& body) {
    ThreadStats& stats = stats_[static_cast<std::size_t>(explore::running_thread())];
    atomically<Design, Patient<Suicide>, Explored>(domain_, stats, body);
  }

 private:
  Descriptors descriptors_;
  Explored::Domain domain_{4};
  alignas(kStripeBytes) std::array<double, 12> memory_{};
  std::array<ThreadStats, 2> stats_;
};

// Each reads two words and takes its own away if both are there: one finds that the other's is gone.
template <template <class, class> class Design>
explore::Program skew() {
  const auto three = std::make_shared<Three<Design>>(std::array{1.0, 1.0, 0.0});
  const auto take_away = [=](std::size_t own) {
    three->run([&](auto& transaction) {
      double mine{}, other{};
      if (!transaction.load(three->word(own), mine) || !transaction.load(three->word(1 - own), other))
        return false;
      explore::require(mine + other > 0, "a zombie");
      return other == 0 || transaction.store(three->word(own), 0.0);
    });
  };
  return {.threads = {[=] { take_away(0); }, [=] { take_away(1); }},
          .after = [=] { explore::require(*three->word(0) + *three->word(1) == 1, "writes are skewed"); }};
}

// One writes z, and then x and y. The other reads x, z and y: z makes it extend its snapshot, which it may
// not do if x has changed.
template <template <class, class> class Design>
explore::Program extension() {
  const auto three = std::make_shared<Three<Design>>(std::array<double, 3>{});
  const auto write = [=] {
    three->run([&](auto& transaction) { return transaction.store(three->word(2), 1.0); });
    three->run([&](auto& transaction) {
      return transaction.store(three->word(0), 1.0) && transaction.store(three->word(1), 1.0);
    });
  };
  const auto read = [=] {
    three->run([&](auto& transaction) {
      double x{}, y{}, z{};
      if (!transaction.load(three->word(0), x) || !transaction.load(three->word(2), z) ||
          !transaction.load(three->word(1), y)) {
        return false;
      }
      explore::require(x == y, "a zombie");
      return true;
    });
  };
  return {.threads = {write, read}, .after = nullptr};
}

template <template <class, class> class Design>
void keeps_the_promise_late(const std::string& name) {
  const explore::Limits late{.late = 1};
  expect_proven(name + ", 2 updaters x 2 locks, once each",
                hold_to_promise<Transactional<Design>>(kTwoOnce, late));
  expect_proven(name + ", 1 updater, 1 reading, 2 locks, once",
                hold_to_promise<Transactional<Design>>(kReadingOnce, late));
  expect_proven(name + ", 2 transactions that read 2 words and write 1",
                explore::explore(skew<Design>, late));
  expect_proven(name + ", a transaction that extends its snapshot",
                explore::explore(extension<Design>, late));
}

TEST(ExploredStm, WbEtlReading) { keeps_the_promise_reading<WbEtl>("wb_etl"); }
TEST(ExploredStm, WbCtlReading) { keeps_the_promise_reading<WbCtl>("wb_ctl"); }
TEST(ExploredStm, WtReading) { keeps_the_promise_reading<Wt>("wt"); }

TEST(ExploredStmLate, WbEtl) { keeps_the_promise_late<WbEtl>("wb_etl"); }
TEST(ExploredStmLate, WbCtl) { keeps_the_promise_late<WbCtl>("wb_ctl"); }
TEST(ExploredStmLate, Wt) { keeps_the_promise_late<Wt>("wt"); }

template <template <class, class> class Design>
void keeps_the_promise_killing(const std::string& name) {
  expect_proven(name + ", 2 updaters x 1 lock, once each, who kills once",
                hold_to_promise<Transactional<Design, ByStripe, KillsOnce>>(kOneOnce));
}

TEST(ExploredStm, WbEtlKilling) { keeps_the_promise_killing<WbEtl>("wb_etl"); }
TEST(ExploredStm, WtKilling) { keeps_the_promise_killing<Wt>("wt"); }
TEST(DeepStm, WbCtlKilling) { keeps_the_promise_killing<WbCtl>("wb_ctl"); }

template <template <class, class> class Design>
void keeps_the_promise_killing_readers(const std::string& name) {
  expect_proven(name + ", 1 updater, 1 reader, 1 lock, once, who kill once, the reader locks at once",
                hold_to_promise<WithReadings<Design, 0, KillsOnce>>(kOneReader));
}

TEST(DeepStm, WbEtlKillingReaders) { keeps_the_promise_killing_readers<WbEtl>("wb_etl"); }
TEST(DeepStm, WtKillingReaders) { keeps_the_promise_killing_readers<Wt>("wt"); }

TEST(ExploredStm, WbEtl) { keeps_the_promise<WbEtl>("wb_etl"); }
TEST(ExploredStm, WbCtl) { keeps_the_promise<WbCtl>("wb_ctl"); }
TEST(ExploredStm, Wt) { keeps_the_promise<Wt>("wt"); }

template <template <class, class> class Design>
void keeps_the_promise_of_three(const std::string& name) {
  expect_proven(name + ", 3 updaters x 1 lock, once each",
                hold_to_promise<Transactional<Design, ByStripe>>(kThree));
}

TEST(ExploredStm, WbEtlOfThree) { keeps_the_promise_of_three<WbEtl>("wb_etl"); }
TEST(DeepStm, WtOfThree) { keeps_the_promise_of_three<Wt>("wt"); }
TEST(DeepStm, WbCtlOfThree) {
  explore::expect_none_found(
      "wb_ctl, 3 updaters x 1 lock, once each",
      hold_to_promise<Transactional<WbCtl, ByStripe>>(kThree, {.executions = 1'000'000}));
}

struct ChecksNoVersion : Explored {
  static constexpr bool kChecksVersion = false;
};
struct LooksAtTheLockOnce : Explored {
  static constexpr bool kRechecksLock = false;
};
struct CommitsBlindly : Explored {
  static constexpr bool kValidatesCommit = false;
};
struct LocksNothing : Explored {
  static constexpr bool kLocksWrites = false;
};
struct ReleasesEarly : Explored {
  static constexpr bool kReleasesLast = false;
};

template <template <class, class> class Design, class Policy>
using Broken = Transactional<Design, ByElement, Patient<Suicide>, Policy>;

TEST(SeededInStm, IsFound) {
  expect_found("wb_etl that checks no version", hold_to_promise<Broken<WbEtl, ChecksNoVersion>>(kReader),
               "a reading has parts");
  expect_found("wt that looks at the lock once", hold_to_promise<Broken<Wt, LooksAtTheLockOnce>>(kReader),
               "a reading has parts");
  expect_found("a reader that locks nothing",
               hold_to_promise<WithReadings<WbEtl, 0, Patient<Suicide>, LocksNothing>>(kReader),
               "a reading has parts");
  expect_found("wb_ctl that commits blindly", hold_to_promise<Broken<WbCtl, CommitsBlindly>>(kTwo), "lost");
  expect_found("wb_ctl that locks nothing", hold_to_promise<Broken<WbCtl, LocksNothing>>(kTwo), "lost");
  expect_found("wb_etl that locks nothing", hold_to_promise<Broken<WbEtl, LocksNothing>>(kTwo), "lost");
  expect_found("wt that locks nothing", hold_to_promise<Broken<Wt, LocksNothing>>(kTwo), "lost");
  expect_found("wb_etl that releases early", hold_to_promise<Broken<WbEtl, ReleasesEarly>>(kTwo), "lost");
}

}  // namespace
}  // namespace tmflow::stm
