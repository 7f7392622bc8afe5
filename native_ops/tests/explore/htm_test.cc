// htm with emulated transactions under every schedule: the elision, and the emulated processor.
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <set>

#include "expected.hpp"
#include "tmflow/htm/emulated/elided.hpp"

namespace tmflow::explore {
namespace {

using htm::emulated::Access;
using htm::emulated::BasicHardwareThread;
using htm::emulated::BasicProcessor;
using htm::emulated::Machine;

// A line for each element, and room for all of them.
constexpr Machine kMachine{
    .dialect = htm::emulated::Dialect::rtm, .line_bytes = 8, .sets = 1, .ways = 8, .siblings = 1};

// A mutex that can be elided.
struct alignas(8) ElidableMutex {
  mutable Mutex mutex;
  const Atom<std::uint32_t>* word = &mutex.word();

  bool taken() const noexcept { return word->load(std::memory_order_acquire) != 0; }
  static void wait(Turn) noexcept { explore::wait(); }
  void lock() const noexcept { mutex.lock(); }
  void unlock() const noexcept { mutex.unlock(); }
  void for_each_word(const auto& visit) const { visit(word); }
};

using Thread = BasicHardwareThread<Mutex>;

constexpr std::size_t kWhole = kMostElements;

// The work of the threads: thread i makes up to `budgets[i]` attempts before it takes the mutex.
struct Elision {
  std::size_t chunk = kWhole;
  std::array<std::int64_t, kMostThreads> budgets{};
};

// htm as it is, except for the lock of the processor and the mutex.
template <class T = Thread, class M = ElidableMutex>
class Elided {
 public:
  explicit Elided(const Elision& elision) : elision_(elision) {
    for (int thread = 0; thread < kThreads; ++thread) hardware_.emplace_back(processor_);
  }

  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const auto budget = elision_.budgets[static_cast<std::size_t>(running_thread())];
    htm::emulated::run_chunks(own(), kMachine.line_bytes,
                              htm::ElidedUpdate<double>{update, memory, elision_.chunk}, mutex_,
                              {.attempts = budget, .spending = htm::Spending::study_tsx}, stats);
    stats.count_update();
    std::size_t& sections = sections_[static_cast<std::size_t>(running_thread())];
    sections += chunks_of(update, memory.size());
    require_counted(stats, budget, sections);
  }

  template <Region R>
  void read(R& region, const tmflow::Reading<double>& reading, ThreadStats& stats) {
    htm::emulated::read_alone(own(), mutex_, region.memory(Holding::nothing), reading, stats);
  }

 private:
  static constexpr int kThreads = 4;

  T& own() { return hardware_[static_cast<std::size_t>(running_thread())]; }

  // Counted without the code that is tested; a row has one element.
  std::size_t chunks_of(const GradientDescent<double>& update, std::size_t elements) const {
    if (update.rows == nullptr) return (elements + elision_.chunk - 1) / elision_.chunk;
    std::set<std::size_t> chunks;
    for (const std::int64_t row : update.rows->rows) {
      chunks.insert(static_cast<std::size_t>(row) / elision_.chunk);
    }
    return chunks.size();
  }

  // Every section ended once, and one that took the mutex had spent its budget.
  static void require_counted(const ThreadStats& stats, std::int64_t budget, std::size_t sections) {
    require(stats.commits() + stats.fallbacks() == static_cast<std::int64_t>(sections),
            "a section was not counted once");
    const std::int64_t aborts = attempts(stats) - stats.commits();
    require(aborts >= stats.fallbacks() * budget, "it fell back before its budget was spent");
    require(aborts <= static_cast<std::int64_t>(sections) * budget, "it spent more than its budget");
    std::int64_t counted = 0, retries = 0;
    for (std::int64_t n = 0; n <= budget; ++n) {
      counted += stats.counted(Contention::retries, n);
      retries += n * stats.counted(Contention::retries, n);
    }
    require(counted == static_cast<std::int64_t>(sections) && retries == aborts, "a retry was not counted");
  }

  const Elision elision_;
  std::array<std::size_t, kMostThreads> sections_{};
  BasicProcessor<Mutex> processor_{kMachine};
  std::deque<T> hardware_;
  M mutex_;
};

template <class E = Elided<>>
Report hold(const Plan& plan, const Elision& elision, const Limits& limits = {}) {
  return check_consistency(plan, [=] { return std::make_unique<E>(elision); }, limits);
}

constexpr Plan kTwo{};
constexpr Plan kTwoOnce{.again = 0};
constexpr Plan kTwoChunksOnce{.again = 0, .block = 1};

constexpr Plan kOneOfThree{.updaters = 3, .again = 0, .elements = 1, .block = 1};
constexpr Plan kReader{.updaters = 1, .readers = 1};
constexpr Plan kReaderOnce{.updaters = 1, .again = 0, .readers = 1};
constexpr Plan kReaderOfChunks{.updaters = 1, .again = 0, .readers = 1, .block = 1};

TEST(Explored, Htm) {
  expect_proven("htm, 2 updaters x 2 elements", hold(kTwo, {.budgets = {1, 1, 1}}));
  expect_proven("htm, 2 updaters x 2 elements, budget 2, once each", hold(kTwoOnce, {.budgets = {2, 2, 1}}));
  expect_proven("htm, 2 updaters x 2 elements, one takes the mutex", hold(kTwo, {.budgets = {0, 2, 1}}));
  expect_proven("htm, 1 updater, 1 reader", hold(kReader, {.budgets = {1, 0, 1}}));
  expect_proven("htm, 1 updater, 1 reader, budget 2, once", hold(kReaderOnce, {.budgets = {2, 0, 1}}));
  expect_proven("htm, 1 updater, 1 reader, 2 chunks, once",
                hold(kReaderOfChunks, {.chunk = 1, .budgets = {1, 0, 1}}));
}

TEST(Explored, HtmOfTwoChunks) {
  expect_proven("htm, 2 updaters x 2 chunks, once each",
                hold(kTwoChunksOnce, {.chunk = 1, .budgets = {1, 1, 1}}));
  expect_proven("htm, 2 updaters x 2 chunks, once each, one takes the mutex",
                hold(kTwoChunksOnce, {.chunk = 1, .budgets = {0, 1, 1}}));
}

// Two rows that change together.
constexpr Plan kRowsRead{
    .updaters = 1, .again = 0, .readers = 1, .readings = 1, .rows = {0b110}, .elements = 3, .block = 3};

TEST(Explored, HtmOfRows) {
  expect_proven("htm, 1 updater of 2 rows, 1 read, once", hold(kRowsRead, {.budgets = {1, 0, 1}}));
  constexpr Plan kRows{.again = 0, .rows = {0b011, 0b110}, .elements = 3, .block = 3};
  expect_proven("htm, 2 updaters of rows, 1 in common, once each", hold(kRows, {.budgets = {1, 1, 1}}));
  expect_proven("htm, 2 updaters of rows, 1 in common, once each, one takes the mutex",
                hold(kRows, {.budgets = {0, 1, 1}}));
  constexpr Plan kOneRow{.again = 0, .rows = {0b11, 0b10}, .block = 1};
  expect_proven("htm, 2 updaters of rows, 1 of 2 in common, a transaction for each row, once each",
                hold(kOneRow, {.chunk = 1, .budgets = {1, 1, 1}}));
}

TEST(Explored, HtmOfThree) {
  expect_proven("htm, 3 updaters x 1 element, once each, one takes the mutex",
                hold(kOneOfThree, {.budgets = {1, 1, 0, 1}}));
  expect_proven("htm, 3 updaters x 1 element, once each", hold(kOneOfThree, {.budgets = {1, 1, 1, 1}}));
}

TEST(ExploredLate, Htm) {
  expect_proven("htm, 2 updaters x 2 elements", hold(kTwo, {.budgets = {1, 1, 1}}, {.late = 1}));
  expect_proven("htm, 2 updaters x 2 elements, one takes the mutex",
                hold(kTwo, {.budgets = {0, 1, 1}}, {.late = 1}));
  expect_proven("htm, 1 updater, 1 reader", hold(kReader, {.budgets = {1, 0, 1}}, {.late = 1}));
}

// A transaction that checks whether the mutex is taken, but does not subscribe to it.
struct Unsubscribed : Thread {
  using Thread::Thread;
  bool begin(std::initializer_list<Access>) { return Thread::begin(); }
};

// A processor that treats a write as a read, and so does not abort readers of the line.
struct AbortsNoReader : Thread {
  using Thread::access;
  using Thread::Thread;
  template <class Inside>
  bool access(std::initializer_list<Access> accesses, const Inside& inside) {
    const auto read = [&](std::size_t i) {
      const Access& access = std::data(accesses)[i];
      return Access::read(access.address, access.bytes);
    };
    return Thread::access({read(0), read(1), read(2)}, inside);
  }
};

// A commit whose writes come after its critical section.
struct WritesBackLate : Thread {
  using Thread::Thread;
  template <class Publish>
  bool commit(htm::Ended& why, const Publish& publish) {
    const bool committed = Thread::commit(why, [] {});
    if (committed) publish();
    return committed;
  }
};

// A fallback that the processor does not notice.
struct DoesNotNotify : Thread {
  using Thread::Thread;
  void notice(std::initializer_list<Access>) {}
};

// A fallback that notifies the processor, but does not take the mutex.
struct NeverTaken : ElidableMutex {
  void lock() const noexcept {}
  void unlock() const noexcept {}
};

template <class T, class M = ElidableMutex>
Report broken(const Elision& elision) {
  return hold<Elided<T, M>>(kTwo, elision);
}

TEST(SeededInHtm, IsFound) {
  expect_found("htm: a transaction for each row, where rows must change together",
               hold(kRowsRead, {.chunk = 1, .budgets = {1, 0, 1}}), "a reading has parts of an update");
  constexpr Elision kOneTakesTheMutex{.budgets = {1, 0, 1}};
  expect_found("htm: a transaction that does not subscribe to the mutex",
               broken<Unsubscribed>(kOneTakesTheMutex), "data race");
  expect_found("htm: a write that does not abort readers", broken<AbortsNoReader>({.budgets = {1, 1, 1}}),
               "an update is lost");
  expect_found("htm: a commit that publishes its writes after its critical section",
               broken<WritesBackLate>({.budgets = {1, 1, 1}}), "data race");
  expect_found("htm: a fallback that does not notify the processor", broken<DoesNotNotify>(kOneTakesTheMutex),
               "data race");
  expect_found("htm: two fallbacks that do not lock the mutex",
               broken<Thread, NeverTaken>({.budgets = {0, 0, 1}}), "data race");
  expect_found("htm: a fallback that does not lock the mutex", broken<Thread, NeverTaken>(kOneTakesTheMutex),
               "data race");
}

}  // namespace
}  // namespace tmflow::explore
