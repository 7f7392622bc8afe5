// The rate of aborts that our accesses do not cause: interrupts and other activity of the system.
#include <algorithm>
#include <cmath>

#include "tmflow/probe/parts.hpp"
#include "trials.hpp"

namespace tmflow::probe {
namespace {

// An eighth of the capacity, so that capacity aborts are rare.
constexpr std::size_t kMostLines = 128;
constexpr double kMostSeconds = 3;

struct Counted {
  std::int64_t attempts = 0, aborts = 0, hopeless = 0;
  double seconds = 0;
};

class Asynchronous {
 public:
  Asynchronous(Transactor& transactor, const Fits& fits, bool timed, Budget budget)
      : transactor_(transactor), fits_(fits), timed_(timed), seconds_(budget.left()), space_(1 << 20) {}

  Json find() {
    const auto lines = found_.find("lines", [&] {
      return std::clamp<std::size_t>(needed(fits_.write_lines, "the capacity for writes") / 8, 1, kMostLines);
    });
    const auto touched =
        found_.find("touching", [&] { return rate_of_touches(needed(lines, "the number of lines")); });
    found_.find("per_line", [&] { return needed(touched, "the share of aborts").at("per_line").number(); });
    found_.find("staying", [&] {
      if (!timed_) throw NotMeasured("times of an emulated machine mean nothing");
      return rate_of_time();
    });
    return found_.json();
  }

 private:
  // Each line is touched once, in transactions as short as possible.
  Json rate_of_touches(std::size_t lines) {
    const std::size_t stride = needed(fits_.line_bytes, "the size of a line");
    const Counted counted = count({.base = space_.data(), .stride = stride, .count = lines, .write = true});
    const auto of = [&](double aborts) {
      const double share = std::min(1.0, aborts / static_cast<double>(counted.attempts));
      return 1 - std::pow(1 - share, 1 / static_cast<double>(lines));
    };
    Json row = json(counted);
    row["per_line"] = rounded(of(static_cast<double>(counted.aborts)));
    row["per_line_at_most"] = rounded(of(at_most(counted.aborts)));
    return row;
  }

  // One line, touched for microseconds: the rate per second, independent of the lines touched.
  Json rate_of_time() {
    const Counted counted = count(
        {.base = space_.data(), .stride = 1, .count = 1, .write = true, .times = transactor_.dwelling()});
    Json row = json(counted);
    row["microseconds_each"] = rounded(1e6 * counted.seconds / static_cast<double>(counted.attempts));
    row["per_second"] = rounded(static_cast<double>(counted.aborts) / counted.seconds);
    row["per_second_at_most"] = rounded(at_most(counted.aborts) / counted.seconds);
    return row;
  }

  Counted count(const Walk& walk) const {
    const double seconds = std::min(kMostSeconds, seconds_ / 2);
    transactor_.prepare(walk);
    Counted counted;
    const auto began = Clock::now();
    do {
      htm::Ended ended;
      ++counted.attempts;
      if (transactor_.attempt(transactor_.first(), {&walk, 1}, ended)) continue;
      ++(ended.hopeless ? counted.hopeless : counted.aborts);
    } while ((counted.seconds = seconds_since(began)) < seconds);
    return counted;
  }

  static Json json(const Counted& counted) {
    return Json::Object{
        {"attempts", counted.attempts}, {"aborts", counted.aborts}, {"capacity_aborts", counted.hopeless}};
  }

  // The upper limit at 97.5 % confidence for a count of rare events (Wilson and Hilferty's approximation).
  static double at_most(std::int64_t count) {
    const double next = static_cast<double>(count) + 1;
    return next * std::pow(1 - 1 / (9 * next) + 1.96 / (3 * std::sqrt(next)), 3);
  }

  Transactor& transactor_;
  const Fits& fits_;
  const bool timed_;
  const double seconds_;
  Space space_;
  Findings found_;
};

}  // namespace

Json find_asynchronous(Transactor& transactor, const Fits& fits, bool timed, Budget budget) {
  return Asynchronous(transactor, fits, timed, budget).find();
}

}  // namespace tmflow::probe
