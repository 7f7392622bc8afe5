// stm under every schedule: its designs and contention managers, on two words with a lock each.
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

// The words of transactions: each access is a step with the memory order of word.hpp.
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

Descriptors* descriptors = nullptr;  // of the execution in progress, one for each thread

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

// An attempt that meets a lock meets it again, by the same steps, until another thread changes something that
// it read. So the next attempt waits for such a change, and termination needs no fairness.
template <class Manager>
struct Patient : Manager {
  static void before_retry(auto&, std::uint64_t, const auto* contended) noexcept {
    if (contended != nullptr) explore::wait();
  }
};

// Kills at most once in a transaction: two transactions that kill each other repeatedly may never end.
struct KillsOnce : Patient<Aggressive> {
  static void enter(auto&, auto&) noexcept { mine() = 0; }
  static bool insists(const auto&, const auto&) noexcept { return mine()++ == 0; }

 private:
  static int& mine() noexcept {
    static std::array<int, explore::kMostThreads> kills;
    return kills[static_cast<std::size_t>(explore::running_thread())];
  }
};

// As in a loop that a compiler instruments.
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

// As in the instrumentation `shared`.
struct ByStripe {
  static bool update(auto& transaction, std::span<double> memory, std::span<const double> delta) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto updated = [&](std::size_t, double value) { return value - delta[i]; };
      if (!transaction.modify(&memory[i], 1, updated)) return false;
    }
    return true;
  }
};

// The update as one transaction, and a reading as another, which takes locks after `readings` failed
// attempts.
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

using explore::check_consistency;
using explore::expect_found;
using explore::expect_proven;

template <template <class, class> class Design, int readings, class Manager = Patient<Suicide>,
          class Policy = Explored>
using WithReadings = Transactional<Design, ByElement, Manager, Policy, readings>;

template <template <class, class> class Design>
void keeps_consistency(const std::string& name) {
  expect_proven(name + ", 2 updaters x 2 locks, once each",
                check_consistency<Transactional<Design>>(kTwoOnce));
  expect_proven(name + ", 2 updaters x 2 locks, by stripes, once each",
                check_consistency<Transactional<Design, ByStripe>>(kTwoOnce));
  expect_proven(name + ", 2 updaters x 1 lock", check_consistency<Transactional<Design, ByStripe>>(kOne));
  expect_proven(name + ", 2 updaters x 2 locks, by stripes, once each, delay",
                check_consistency<Transactional<Design, ByStripe, Delay>>(kTwoOnce));
  expect_proven(name + ", 1 updater, 1 read, 2 locks", check_consistency<Transactional<Design>>(kReading));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once",
                check_consistency<Transactional<Design>>(kReaderOnce));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once, the reader locks after one attempt",
                check_consistency<WithReadings<Design, 1>>(kReaderOnce));
  expect_proven(name + ", 1 updater, 1 reader, 2 locks, once, the reader locks immediately",
                check_consistency<WithReadings<Design, 0>>(kReaderOnce));
}

// Every updater reads afterwards.
template <template <class, class> class Design>
void keeps_consistency_reading(const std::string& name) {
  expect_proven(name + ", 2 updaters that also read x 1 lock, once each",
                check_consistency<Transactional<Design, ByStripe>>(kOneAndRead));
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

// Each reads two words and removes its own if both are there: the second one must find the other word gone.
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

// One thread writes z, and then x and y. The other reads x, z and y: z makes it extend its snapshot, which it
// must not do if x has changed.
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
void keeps_consistency_late(const std::string& name) {
  const explore::Limits late{.late = 1};
  expect_proven(name + ", 2 updaters x 2 locks, once each",
                check_consistency<Transactional<Design>>(kTwoOnce, late));
  expect_proven(name + ", 1 updater, 1 read, 2 locks, once",
                check_consistency<Transactional<Design>>(kReadingOnce, late));
  expect_proven(name + ", 2 transactions that read 2 words and write 1",
                explore::explore(skew<Design>, late));
  expect_proven(name + ", a transaction that extends its snapshot",
                explore::explore(extension<Design>, late));
}

TEST(ExploredStm, WbEtlReading) { keeps_consistency_reading<WbEtl>("wb_etl"); }
TEST(ExploredStm, WbCtlReading) { keeps_consistency_reading<WbCtl>("wb_ctl"); }
TEST(ExploredStm, WtReading) { keeps_consistency_reading<Wt>("wt"); }

TEST(ExploredStmLate, WbEtl) { keeps_consistency_late<WbEtl>("wb_etl"); }
TEST(ExploredStmLate, WbCtl) { keeps_consistency_late<WbCtl>("wb_ctl"); }
TEST(ExploredStmLate, Wt) { keeps_consistency_late<Wt>("wt"); }

template <template <class, class> class Design>
void keeps_consistency_killing(const std::string& name) {
  expect_proven(name + ", 2 updaters x 1 lock, once each, killing once",
                check_consistency<Transactional<Design, ByStripe, KillsOnce>>(kOneOnce));
}

TEST(ExploredStm, WbEtlKilling) { keeps_consistency_killing<WbEtl>("wb_etl"); }
TEST(ExploredStm, WtKilling) { keeps_consistency_killing<Wt>("wt"); }
TEST(DeepStm, WbCtlKilling) { keeps_consistency_killing<WbCtl>("wb_ctl"); }

template <template <class, class> class Design>
void keeps_consistency_killing_readers(const std::string& name) {
  expect_proven(name + ", 1 updater, 1 reader, 1 lock, once, killing once, the reader locks immediately",
                check_consistency<WithReadings<Design, 0, KillsOnce>>(kOneReader));
}

TEST(DeepStm, WbEtlKillingReaders) { keeps_consistency_killing_readers<WbEtl>("wb_etl"); }
TEST(DeepStm, WtKillingReaders) { keeps_consistency_killing_readers<Wt>("wt"); }

TEST(ExploredStm, WbEtl) { keeps_consistency<WbEtl>("wb_etl"); }
TEST(ExploredStm, WbCtl) { keeps_consistency<WbCtl>("wb_ctl"); }
TEST(ExploredStm, Wt) { keeps_consistency<Wt>("wt"); }

template <template <class, class> class Design>
void keeps_consistency_of_three(const std::string& name) {
  expect_proven(name + ", 3 updaters x 1 lock, once each",
                check_consistency<Transactional<Design, ByStripe>>(kThree));
}

TEST(ExploredStm, WbEtlOfThree) { keeps_consistency_of_three<WbEtl>("wb_etl"); }
TEST(DeepStm, WtOfThree) { keeps_consistency_of_three<Wt>("wt"); }
TEST(DeepStm, WbCtlOfThree) {
  explore::expect_none_found(
      "wb_ctl, 3 updaters x 1 lock, once each",
      check_consistency<Transactional<WbCtl, ByStripe>>(kThree, {.executions = 1'000'000}));
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
  expect_found("wb_etl: a read that does not check the version",
               check_consistency<Broken<WbEtl, ChecksNoVersion>>(kReader), "a reading has parts");
  expect_found("wt: a read that does not recheck the lock",
               check_consistency<Broken<Wt, LooksAtTheLockOnce>>(kReader), "a reading has parts");
  expect_found("wb_etl: a locking reader that takes no locks",
               check_consistency<WithReadings<WbEtl, 0, Patient<Suicide>, LocksNothing>>(kReader),
               "a reading has parts");
  expect_found("wb_ctl: a commit without validation", check_consistency<Broken<WbCtl, CommitsBlindly>>(kTwo),
               "lost");
  expect_found("wb_ctl: a transaction that takes no locks",
               check_consistency<Broken<WbCtl, LocksNothing>>(kTwo), "lost");
  expect_found("wb_etl: a transaction that takes no locks",
               check_consistency<Broken<WbEtl, LocksNothing>>(kTwo), "lost");
  expect_found("wt: a transaction that takes no locks", check_consistency<Broken<Wt, LocksNothing>>(kTwo),
               "lost");
  expect_found("wb_etl: locks released before the write-back ends",
               check_consistency<Broken<WbEtl, ReleasesEarly>>(kTwo), "lost");
}

}  // namespace
}  // namespace tmflow::stm
