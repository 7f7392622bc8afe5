// The probe finds exactly the properties that an emulated machine was given.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>

#include "tmflow/probe/parts.hpp"
#include "tmflow/probe/probe.hpp"

namespace tmflow::probe {
namespace {

constexpr double kLong = 300;  // seconds: more than any part of the probe takes under a sanitizer

std::unique_ptr<Transactor> cache(const std::string& numbers, const std::string& rest) {
  return make_emulated_transactor("provider=rtm;" + numbers + ";" + rest);
}

struct Machine {
  std::size_t line, sets, ways;
  bool reads_fill;
  const char* asynchronous = "0";

  std::string text() const {
    return "line_bytes=" + std::to_string(line) + ";sets=" + std::to_string(sets) +
           ";ways=" + std::to_string(ways) + ";reads_fill=" + (reads_fill ? "1" : "0") +
           ";asynchronous=" + asynchronous;
  }
};

std::ostream& operator<<(std::ostream& out, const Machine& machine) { return out << machine.text(); }

class ProbedCache : public testing::TestWithParam<Machine> {};

TEST_P(ProbedCache, HasTheNumbersThatItWasGiven) {
  const Machine& given = GetParam();
  const auto transactor = cache(given.text(), "siblings=1");
  Fits fits;
  const Json found = find_capacity(*transactor, Budget(kLong), fits);
  const auto number = [&](const char* name) { return static_cast<std::size_t>(found.at(name).integer()); };
  const std::size_t lines = given.sets * given.ways;
  EXPECT_EQ(number("line_bytes"), given.line);
  EXPECT_EQ(number("sets"), given.sets);
  EXPECT_EQ(number("ways"), given.ways);
  EXPECT_EQ(found.at("shape").text(), "cache");
  EXPECT_EQ(number("write_lines"), lines);
  EXPECT_EQ(number("mixed_lines"), given.reads_fill ? lines : 2 * lines);
  EXPECT_EQ(found.at("reads_fill").boolean(), given.reads_fill);
  if (given.reads_fill) {
    EXPECT_EQ(number("reads_beside"), given.ways - number("writes_of_a_set"));
  }
  EXPECT_TRUE(found.at("read_lines").is_null()) << "what is only read may leave";
  EXPECT_TRUE(found.at("why")
                  .at("read_lines")
                  .text()
                  .starts_with(given.asynchronous == std::string("0") ? "transactions that read 16 MiB commit"
                                                                      : "half of the transactions of"));
  for (const Json& row : found.at("by_stride").array()) {
    const auto stride = static_cast<std::size_t>(row.at("stride_bytes").integer());
    EXPECT_EQ(static_cast<std::size_t>(row.at("lines").integer()),
              std::max(lines * given.line / stride, given.ways));
  }
  for (const Json& row : found.at("write_curve").array()) {
    const bool fit = static_cast<std::size_t>(row.at("places").integer()) <= lines;
    EXPECT_EQ(row.at("commits").integer(), fit ? row.at("tries").integer() : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Emulated, ProbedCache,
                         testing::Values(Machine{64, 64, 8, true}, Machine{64, 64, 12, true},
                                         Machine{64, 64, 12, false}, Machine{32, 256, 3, false},
                                         Machine{128, 16, 2, true}, Machine{256, 32, 16, true},
                                         Machine{64, 128, 1, true}, Machine{64, 64, 8, true, "0.0003"}));

class ProbedEntries : public testing::TestWithParam<std::pair<std::size_t, std::size_t>> {};

TEST_P(ProbedEntries, AreAsManyAsWereGiven) {
  const auto [line, entries] = GetParam();
  const auto transactor =
      make_emulated_transactor("provider=power;line_bytes=" + std::to_string(line) +
                               ";entries=" + std::to_string(entries) + ";siblings=1;asynchronous=0");
  Fits fits;
  const Json found = find_capacity(*transactor, Budget(kLong), fits);
  EXPECT_EQ(found.at("shape").text(), "entries");
  EXPECT_EQ(static_cast<std::size_t>(found.at("line_bytes").integer()), line);
  for (const char* const name : {"ways", "write_lines", "read_lines", "mixed_lines"}) {
    EXPECT_EQ(static_cast<std::size_t>(found.at(name).integer()), entries) << name;
  }
  EXPECT_TRUE(found.at("reads_fill").boolean());
}

INSTANTIATE_TEST_SUITE_P(Emulated, ProbedEntries,
                         testing::Values(std::pair{128, 64}, std::pair{128, 63}, std::pair{64, 17}));

TEST(ProbedSiblings, AreThoseThatShare) {
  constexpr std::size_t kCache = 4 * 8, kEntries = 16;
  for (const bool entries : {false, true}) {
    for (const int siblings : {1, entries ? 4 : 2}) {
      const std::string rest = "siblings=" + std::to_string(siblings) + ";asynchronous=0";
      const auto transactor =
          entries ? make_emulated_transactor("provider=power;line_bytes=128;entries=16;" + rest)
                  : cache("line_bytes=64;sets=4;ways=8;reads_fill=1", rest);
      if (transactor->siblings().empty()) GTEST_SKIP() << "two threads need two processors";
      const Fits fits{.line_bytes = entries ? 128 : 64, .write_lines = entries ? kEntries : kCache};
      const Json found = find_siblings(*transactor, fits, Budget(kLong));
      const auto number = [&](const char* name) {
        return static_cast<std::size_t>(found.at(name).integer());
      };
      const std::size_t alone = *fits.write_lines;
      EXPECT_EQ(number("sharing_threads"), static_cast<std::size_t>(siblings))
          << (entries ? "entries" : "cache");
      EXPECT_EQ(number("alone_lines"), alone);
      // The lines in the sibling's transactions are missing here; its loads take no entries.
      const std::size_t beside = number("beside_transactions_lines"), loads = number("beside_loads_lines");
      if (siblings == 1) {
        EXPECT_EQ(beside, alone);
        EXPECT_EQ(loads, alone);
      } else {
        EXPECT_NEAR(static_cast<double>(beside), alone / 2.0, alone / 8.0);
        EXPECT_NEAR(static_cast<double>(loads), entries ? alone : alone / 2.0, alone / 8.0);
      }
    }
  }
}

TEST(ProbedConflicts, AreThoseOfLinesThatOneOfTwoWrites) {
  const auto transactor = cache("line_bytes=64;sets=64;ways=8;reads_fill=1", "siblings=1;asynchronous=0");
  if (!transactor->other_core()) GTEST_SKIP() << "two threads need two processors";
  const Json found = find_conflicts(*transactor, Budget(kLong));
  EXPECT_TRUE(found.at("readers_abort_writers").boolean());
  EXPECT_TRUE(found.at("transactional_readers_abort_writers").boolean());
  EXPECT_TRUE(found.at("writers_abort_readers").boolean());
  EXPECT_FALSE(found.at("readers_abort_readers").boolean());
  for (const Json& pair : found.at("pairs").array()) {
    const bool conflict = pair.at("mine").text() == "write" || pair.at("other").text() == "write";
    EXPECT_EQ(pair.at("alone_share").number(), 1);
    EXPECT_NEAR(pair.at("share").number(), conflict ? 0 : 1, 0.1) << canonical(pair);
  }
}

TEST(ProbedAsynchronousAborts, ComeAtTheirRate) {
  const Fits fits{.line_bytes = 64, .write_lines = 512};
  const auto of = [&](const std::string& rate) {
    const auto transactor =
        cache("line_bytes=64;sets=64;ways=8;reads_fill=1", "siblings=1;asynchronous=" + rate);
    return find_asynchronous(*transactor, fits, false, Budget(0.6));
  };
  const Json some = of("0.002"), none = of("0");
  // Five standard deviations of a count: on a shared machine, or under a sanitizer, there are fewer attempts.
  const double aborts = some.at("touching").at("aborts").number();
  EXPECT_GT(aborts, 0);
  EXPECT_NEAR(some.at("per_line").number(), 0.002, 5 * 0.002 / std::sqrt(aborts));
  EXPECT_GT(some.at("touching").at("per_line_at_most").number(), some.at("per_line").number());
  EXPECT_EQ(none.at("per_line").number(), 0);
  EXPECT_GT(none.at("touching").at("per_line_at_most").number(), 0) << "none seen is not none there";
  EXPECT_TRUE(none.at("staying").is_null());
}

// A processor that reports transactions but never commits one, as with some microcode.
class NeverCommits final : public Transactor {
 public:
  explicit NeverCommits(bool reported) : reported_(reported) {}
  std::string_view dialect() const override { return "rtm"; }
  bool reported() const override { return reported_; }
  bool enabled() const override { return false; }
  int first() const override { return 0; }
  std::optional<int> other_core() const override { return std::nullopt; }
  std::vector<int> siblings() const override { return {}; }
  void settle(int) const override {}
  bool attempt(int, std::span<const Walk>, htm::Ended& ended) override {
    EXPECT_TRUE(reported_) << "an instruction that the processor does not have";
    ended = {.status = 0, .hopeless = false};
    return false;
  }
  void outside(int, const Walk&) override {}
  void prepare(const Walk&) const override {}
  std::size_t dwelling() const override { return 1; }

 private:
  const bool reported_;
};

TEST(ProbedTransactions, ThatNeverCommitAreNotMeasured) {
  for (const bool reported : {false, true}) {
    NeverCommits transactor(reported);
    const Json found = find_transactions(&transactor, true, kLong);
    EXPECT_EQ(found.at("reported").boolean(), reported);
    EXPECT_FALSE(found.at("enabled").boolean());
    EXPECT_FALSE(found.at("commits").boolean());
    EXPECT_EQ(found.at("tried").integer(), reported ? 100 : 0);
    for (const char* const part : {"capacity", "conflicts", "siblings", "asynchronous", "costs"}) {
      EXPECT_TRUE(found.at(part).is_null());
      EXPECT_EQ(found.at("why").at(part).text(), reported ? "none of the trial transactions committed"
                                                          : "this processor does not report transactions");
    }
  }
}

TEST(ProbedTransactions, AreNoneWhereTheFamilyHasNone) {
  const Json found = find_transactions(nullptr, true, kLong);
  EXPECT_TRUE(found.at("provider").is_null());
  EXPECT_FALSE(found.at("reported").boolean());
  EXPECT_EQ(found.at("why").object().size(), 6u);
}

TEST(Probe, SaysWhatItHadNoTimeFor) {
  const auto transactor = cache("line_bytes=64;sets=64;ways=8;reads_fill=1", "siblings=2;asynchronous=0");
  Fits fits;
  const Json found = find_capacity(*transactor, Budget(0), fits);
  for (const auto& [name, value] : found.object()) EXPECT_EQ(value.is_null(), name != "why") << name;
  EXPECT_TRUE(found.at("why").at("ways").text().starts_with("the time of the probe ran out"));
  EXPECT_EQ(found.at("why").object().size() + 1, found.object().size());
}

TEST(Probe, NamesWhatIsNotAllowed) {
  const auto says = [](double seconds, const std::string& machine) -> std::string {
    try {
      probe_json({.seconds = seconds, .emulate = machine, .version = "1"});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(says(4.5, "provider=rtm"), "seconds is 4.5; allowed: 5 to 600");
  EXPECT_EQ(says(601, "provider=rtm"), "seconds is 601.0; allowed: 5 to 600");
  EXPECT_EQ(says(5, "provider=rtm"), "the emulated machine: line_bytes is missing");
}

}  // namespace
}  // namespace tmflow::probe
