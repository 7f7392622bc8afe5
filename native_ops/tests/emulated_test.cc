// The emulated processor against known answers: what fits, what conflicts, and the statuses of aborts.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/htm/emulated/processor.hpp"

namespace tmflow::htm::emulated {
namespace {

constexpr std::string_view kTsx =
    "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";
constexpr std::string_view kTsxSiblings =
    "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=2;asynchronous=0";
constexpr std::string_view kPower = "provider=power;line_bytes=128;entries=64;siblings=1;asynchronous=0";
constexpr std::string_view kPowerSiblings =
    "provider=power;line_bytes=128;entries=64;siblings=2;asynchronous=0";

constexpr std::uint64_t kRtmConflict = 0x6, kRtmCapacity = 0x8, kRtmMutexTaken = 0x1e000001;
// Code in the highest byte (its lowest bit: persistent), cause, user mode and complete, level 1.
constexpr std::uint64_t kPowerOverflow = 0x0120'0000'1800'0001, kPowerTransaction = 0x0004'0000'1800'0001,
                        kPowerOther = 0x0008'0000'1800'0001, kPowerMutexTaken = 0x1e00'0001'1800'0001,
                        kPowerAsynchronous = 0xde00'0001'1800'0001;

// A processor, and addresses that it sees; nobody reads the memory behind them.
class Bench {
 public:
  explicit Bench(std::string_view text, int threads = 1) : processor_(MachineText::parse(text)) {
    for (int i = 0; i < threads; ++i) threads_.push_back(std::make_unique<HardwareThread>(processor_));
  }

  HardwareThread& thread(int i = 0) { return *threads_[static_cast<std::size_t>(i)]; }

  // The line with that number, in memory that begins at a line of the first set.
  const void* line(std::size_t number) const {
    return reinterpret_cast<const void*>(0x100000 + number * processor_.machine().line_bytes);
  }

  bool read(int i, std::size_t number) { return thread(i).access({Access::read(line(number), 1)}); }
  bool write(int i, std::size_t number) { return thread(i).access({Access::written(line(number), 1)}); }

  void begin(int i = 0) { thread(i).begin(); }
  // The end of the thread's transaction: kCommit, or the status.
  static constexpr std::uint64_t kCommit = ~0ull;
  std::uint64_t end(int i = 0) {
    Ended why;
    bool published = false;
    const bool committed = thread(i).commit(why, [&] { published = true; });
    EXPECT_EQ(committed, published);
    return committed ? kCommit : why.status;
  }

 private:
  Processor processor_;
  std::vector<std::unique_ptr<HardwareThread>> threads_;
};
constexpr std::uint64_t kCommit = Bench::kCommit;

// One transaction that writes `written` lines, `stride` apart.
std::uint64_t write_lines(Bench& bench, std::size_t written, std::size_t stride = 1) {
  bench.begin();
  for (std::size_t i = 0; i < written; ++i) bench.write(0, i * stride);
  return bench.end();
}

TEST(EmulatedTsx, WritesExactlyItsCache) {
  Bench bench(kTsx);
  EXPECT_EQ(write_lines(bench, 512), kCommit);  // 8,192 floats
  EXPECT_EQ(write_lines(bench, 513), kRtmCapacity);
  EXPECT_EQ(write_lines(bench, 512), kCommit) << "what was there before changes nothing";
}

TEST(EmulatedTsx, WritesAsManyLinesOfOneSetAsThereAreWays) {
  Bench bench(kTsx);
  EXPECT_EQ(write_lines(bench, 8, 64), kCommit);
  EXPECT_EQ(write_lines(bench, 9, 64), kRtmCapacity);
  EXPECT_EQ(write_lines(bench, 9, 32), kCommit) << "two sets";
}

TEST(EmulatedTsx, ReadsMoreThanItsCacheAsLongAsItWritesNothing) {
  Bench bench(kTsx);
  bench.begin();
  for (std::size_t i = 0; i < 5000; ++i) EXPECT_TRUE(bench.read(0, i));
  EXPECT_EQ(bench.end(), kCommit);
}

TEST(EmulatedTsx, ReadsPushWrittenLinesOut) {
  Bench bench(kTsx);
  bench.begin();
  bench.write(0, 0);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_TRUE(bench.read(0, 64 * i));
  EXPECT_FALSE(bench.read(0, 64 * 8));
  EXPECT_EQ(bench.end(), kRtmCapacity);
}

TEST(EmulatedTsx, KeepsALineThatIsUsedAgain) {
  Bench bench(kTsx);
  bench.begin();
  bench.write(0, 0);
  for (std::size_t i = 1; i < 100; ++i) {
    EXPECT_TRUE(bench.read(0, 64 * i));
    EXPECT_TRUE(bench.read(0, 0));
  }
  EXPECT_EQ(bench.end(), kCommit);
}

TEST(EmulatedTsx, ReadsPushNothingOutWhereTheyDoNotFill) {
  Bench bench("provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=0;siblings=1;asynchronous=0");
  bench.begin();
  bench.write(0, 0);
  for (std::size_t i = 1; i < 100; ++i) EXPECT_TRUE(bench.read(0, 64 * i));
  EXPECT_EQ(bench.end(), kCommit);
}

// An update of so many lines, with the accesses of BufferedUpdate: read a line of the variable, read the line
// of the gradient beside it, write the line of the variable.
std::uint64_t update_of(Bench& bench, std::size_t lines, std::size_t gradient) {
  bench.begin();
  for (std::size_t i = 0; i < lines; ++i) {
    bench.read(0, i);
    bench.read(0, gradient + i);
    bench.write(0, i);
  }
  return bench.end();
}

TEST(EmulatedTsx, WithItsGradientFitsHalfAsMuch) {
  Bench bench(kTsx);
  EXPECT_EQ(update_of(bench, 256, 1024), kCommit);  // 4,096 floats that begin at a line border
  EXPECT_EQ(update_of(bench, 257, 1024), kRtmCapacity);
  // If the gradient begins in another set, another set fills first, but the same amount fits.
  EXPECT_EQ(update_of(bench, 256, 1024 + 17), kCommit);
  EXPECT_EQ(update_of(bench, 257, 1024 + 32), kRtmCapacity);
}

TEST(EmulatedTsx, SiblingsShareTheCache) {
  for (const bool together : {false, true}) {
    Bench bench(together ? kTsxSiblings : kTsx, 2);
    bench.begin(0);
    bench.begin(1);
    for (std::size_t i = 0; i < 256; ++i) bench.write(0, i);
    for (std::size_t i = 0; i < 256; ++i) EXPECT_TRUE(bench.write(1, 1024 + i));
    EXPECT_TRUE(bench.write(0, 0)) << "they have half of it each";
    EXPECT_TRUE(bench.write(1, 2048)) << "one line more pushes out the other's oldest";
    EXPECT_EQ(bench.end(1), kCommit);
    EXPECT_EQ(bench.end(0), together ? kRtmCapacity : kCommit);
  }
}

TEST(EmulatedTsx, ACommitOfASiblingMakesRoomAndSoDoesItsAbort) {
  for (const bool commits : {false, true}) {
    Bench bench(kTsxSiblings, 2);
    bench.begin(0);
    bench.begin(1);
    for (std::size_t i = 0; i < 8; ++i) bench.write(1, 1024 + 64 * i);
    if (!commits) bench.thread(1).abort();
    EXPECT_EQ(bench.end(1), commits ? kCommit : kRtmMutexTaken);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(bench.write(0, 64 * i));
    EXPECT_EQ(bench.end(0), kCommit);
  }
}

TEST(EmulatedTsx, AReaderOutsideOfTransactionsPushesOutItsSiblingsLines) {
  Bench bench(kTsxSiblings, 2);
  bench.begin(0);
  bench.write(0, 0);
  for (std::size_t i = 1; i <= 8; ++i) bench.thread(1).notice({Access::read(bench.line(64 * i), 1)});
  EXPECT_EQ(bench.end(0), kRtmCapacity);
}

TEST(EmulatedPower, CountsReadsAndWritesTogether) {
  for (const bool one_more : {false, true}) {
    Bench bench(kPower);
    bench.begin();
    for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(bench.write(0, i));
    for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(bench.read(0, 1000 + i));
    for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(bench.read(0, i)) << "it has its entry already";
    if (one_more) {
      EXPECT_FALSE(bench.read(0, 2000));
    }
    EXPECT_EQ(bench.end(), one_more ? kPowerOverflow : kCommit);
  }
}

TEST(EmulatedPower, CommitsWhatTakesAllEntries) {
  Bench bench(kPower);
  EXPECT_EQ(write_lines(bench, 64), kCommit);
  EXPECT_EQ(write_lines(bench, 64, 1000), kCommit) << "in whatever places";
  EXPECT_EQ(write_lines(bench, 65), kPowerOverflow);
  EXPECT_EQ(write_lines(bench, 64), kCommit);
}

TEST(EmulatedPower, SiblingsShareTheEntries) {
  Bench bench(kPowerSiblings, 3);  // the third is on a separate core
  for (const int i : {0, 1, 2}) bench.begin(i);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(bench.write(0, i));
  for (std::size_t i = 0; i < 64; ++i) EXPECT_TRUE(bench.write(2, 2000 + i));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(bench.read(1, 1000 + i));
  EXPECT_FALSE(bench.read(1, 1032)) << "who needs one too many aborts, not its sibling";
  EXPECT_EQ(bench.end(1), kPowerOverflow);
  EXPECT_TRUE(bench.write(0, 32)) << "its entries are free again";
  EXPECT_EQ(bench.end(0), kCommit);
  EXPECT_EQ(bench.end(2), kCommit);
}

TEST(EmulatedConflicts, WhoAsksSecondWins) {
  const std::array<std::uint64_t, 2> statuses{kRtmConflict, kPowerTransaction};
  for (const std::size_t machine : {0, 1}) {
    Bench bench(machine == 0 ? kTsx : kPower, 2);
    for (const bool first_writes : {false, true}) {
      for (const bool second_writes : {false, true}) {
        bench.begin(0);
        bench.begin(1);
        EXPECT_TRUE(first_writes ? bench.write(0, 5) : bench.read(0, 5));
        EXPECT_TRUE(second_writes ? bench.write(1, 5) : bench.read(1, 5));
        const bool conflict = first_writes || second_writes;
        EXPECT_EQ(bench.read(0, 6), !conflict) << "it learns at its next access";
        EXPECT_EQ(bench.end(1), kCommit);
        EXPECT_EQ(bench.end(0), conflict ? statuses[machine] : kCommit);
      }
    }
  }
}

TEST(EmulatedConflicts, AreOfLinesNotOfBytes) {
  Bench bench(kTsx, 2);
  bench.begin(0);
  bench.begin(1);
  const char* const line = static_cast<const char*>(bench.line(5));
  bench.thread(0).access({Access::written(line, 4)});
  bench.thread(1).access({Access::written(line + 60, 4)});
  EXPECT_EQ(bench.end(0), kRtmConflict);
  EXPECT_EQ(bench.end(1), kCommit);
  bench.begin(0);
  bench.begin(1);
  bench.thread(0).access({Access::written(line, 64)});
  bench.thread(1).access({Access::written(line + 64, 4)});
  EXPECT_EQ(bench.end(0), kCommit);
  EXPECT_EQ(bench.end(1), kCommit);
}

TEST(EmulatedConflicts, ComeFromOutsideOfTransactionsToo) {
  const std::array<std::uint64_t, 2> statuses{kRtmConflict, kPowerOther};
  for (const std::size_t machine : {0, 1}) {
    Bench bench(machine == 0 ? kTsx : kPower, 2);
    for (const bool first_writes : {false, true}) {
      for (const bool outsider_writes : {false, true}) {
        bench.begin(0);
        first_writes ? bench.write(0, 5) : bench.read(0, 5);
        const void* const five = bench.line(5);
        bench.thread(1).notice({outsider_writes ? Access::written(five, 4) : Access::read(five, 4)});
        const bool conflict = first_writes || outsider_writes;
        EXPECT_EQ(bench.end(0), conflict ? statuses[machine] : kCommit);
      }
    }
  }
}

TEST(EmulatedConflicts, EndWithTheTransaction) {
  Bench bench(kTsx, 2);
  bench.begin(0);
  bench.write(0, 5);
  EXPECT_EQ(bench.end(0), kCommit);
  bench.begin(1);
  bench.write(1, 5);
  bench.begin(0);
  EXPECT_EQ(bench.end(0), kCommit);
  EXPECT_EQ(bench.end(1), kCommit);
}

TEST(EmulatedStatuses, AreThoseOfTheMachine) {
  for (const bool power : {false, true}) {
    Bench bench(power ? kPower : kTsx);
    bench.begin();
    bench.thread().abort();
    EXPECT_EQ(bench.end(), power ? kPowerMutexTaken : kRtmMutexTaken);
  }
  EXPECT_EQ(ended(Dialect::rtm, Cause::asynchronous).status, 0);
  EXPECT_EQ(ended(Dialect::power, Cause::asynchronous).status, kPowerAsynchronous);
  for (const Dialect dialect : {Dialect::rtm, Dialect::power}) {
    for (const Cause cause : {Cause::transaction, Cause::other_access, Cause::capacity, Cause::mutex_taken,
                              Cause::asynchronous}) {
      EXPECT_EQ(ended(dialect, cause).hopeless, cause == Cause::capacity);
    }
  }
}

TEST(EmulatedAsynchronousAborts, ComeAtTheirRateAndAreTheSameAgain) {
  constexpr int kTransactions = 20'000, kLines = 10;
  const auto aborted = [] {
    Bench bench("provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0.01");
    int count = 0;
    for (int t = 0; t < kTransactions; ++t) {
      bench.begin();
      for (std::size_t i = 0; i < kLines && bench.write(0, i); ++i) bench.read(0, i);
      const std::uint64_t end = bench.end();
      EXPECT_TRUE(end == kCommit || end == 0);
      count += end == 0 ? 1 : 0;
    }
    return count;
  };
  // 1 - 0.99^10 = 0.0956 of the transactions; touching a line again draws no second random number.
  const double expected = 0.0956 * kTransactions;
  EXPECT_NEAR(aborted(), expected, 5 * std::sqrt(expected));
  EXPECT_EQ(aborted(), aborted());
}

TEST(EmulatedMachine, NamesWhatIsImpossible) {
  const auto says = [](const std::string& text) -> std::string {
    try {
      MachineText::parse(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const std::string cache = "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1";
  const std::string rest = ";siblings=2;asynchronous=1e-7", prefix = "the emulated machine: ";
  EXPECT_EQ(says(cache + rest), "");
  EXPECT_EQ(says(std::string(kPower)), "");
  EXPECT_EQ(says(""), prefix + "provider is missing");
  EXPECT_EQ(says("nonsense"), prefix + "'nonsense' is not of the form name=value");
  EXPECT_EQ(says("ways=0;" + cache + rest), prefix + "ways is given twice");
  EXPECT_EQ(says("provider=z13;line_bytes=64"), prefix + "provider is 'z13'; allowed: rtm, power");
  EXPECT_EQ(says("provider=rtm;line_bytes=96" + rest),
            prefix + "line_bytes is '96', which is no power of two");
  EXPECT_EQ(says("provider=rtm;line_bytes=64;sets=64;ways=0;reads_fill=1" + rest),
            prefix + "ways is '0'; allowed: 1 to 1048576");
  EXPECT_EQ(says("provider=rtm;line_bytes=64;sets=48;ways=8;reads_fill=1" + rest),
            prefix + "sets is '48', which is no power of two");
  EXPECT_EQ(says("provider=power;line_bytes=128;entries=-1" + rest),
            prefix + "entries is '-1'; allowed: 1 to 1048576");
  EXPECT_EQ(says(cache + ";siblings=0;asynchronous=0"), prefix + "siblings is '0'; allowed: 1 to 64");
  EXPECT_EQ(says(cache + ";siblings=1;asynchronous=1.5"),
            prefix + "asynchronous is '1.5'; allowed: a probability, 0 to 1");
  EXPECT_EQ(says(cache + ";siblings=1;asynchronous=nan"),
            prefix + "asynchronous is 'nan'; allowed: a probability, 0 to 1");
  EXPECT_EQ(says("provider=rtm;line_bytes=64;sets=1048576;ways=2;reads_fill=1" + rest),
            prefix + "sets times ways is 2097152; allowed: up to 1048576 lines");
  EXPECT_EQ(says(cache + rest + ";entries=64"), prefix + "unknown number 'reads_fill'");
  EXPECT_EQ(says(cache + rest + ";colour=blue"), prefix + "unknown number 'colour'");
}

TEST(EmulatedMachine, IsOnePerText) {
  EXPECT_EQ(&Processor::of(kTsx), &Processor::of(kTsx));
  EXPECT_NE(&Processor::of(kTsx), &Processor::of(kPower));
  EXPECT_EQ(&Processor::of(kTsx).here(), &Processor::of(kTsx).here());
}

}  // namespace
}  // namespace tmflow::htm::emulated
