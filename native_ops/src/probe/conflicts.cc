// Whether accesses of another core, in transactions or not, abort a transaction that has touched the line.
#include "companion.hpp"
#include "tmflow/probe/parts.hpp"
#include "trials.hpp"

namespace tmflow::probe {
namespace {

constexpr int kTimes = 100;

// What another core does to the line during the transaction.
struct Other {
  bool writes, in_transactions;
};

class Conflicts {
 public:
  Conflicts(Transactor& transactor, Budget budget)
      : transactor_(transactor), budget_(budget), space_(1 << 16) {}

  Json find() {
    Json::Array pairs;
    const auto all = found_.find("pairs", [&] {
      for (const bool mine : {false, true}) {
        for (const bool writes : {false, true}) {
          for (const bool in_transactions : {false, true}) {
            pairs.push_back(pair(mine, {writes, in_transactions}));
          }
        }
      }
      return Json(pairs);
    });
    const auto aborted = [&](bool mine, bool writes, bool in_transactions) {
      where();
      const Json& pair = needed(all, "the share of commits next to another thread")
                             .array()[4u * mine + 2u * writes + 1u * in_transactions];
      return pair.at("share").number() < pair.at("alone_share").number() / 2;
    };
    found_.find("readers_abort_writers", [&] { return aborted(true, false, false); });
    found_.find("transactional_readers_abort_writers", [&] { return aborted(true, false, true); });
    found_.find("writers_abort_readers", [&] { return aborted(false, true, false); });
    found_.find("readers_abort_readers", [&] { return aborted(false, false, false); });
    return found_.json();
  }

 private:
  Json pair(bool mine, Other other) {
    const int there = where();
    const double alone = share(mine, nullptr);
    const Walk once{.base = space_.data(), .stride = 1, .count = 1, .write = other.writes};
    Companion companion(transactor_, there, [&] {
      htm::Ended ended;
      if (other.in_transactions) {
        transactor_.attempt(there, {&once, 1}, ended);
      } else {
        transactor_.outside(there, once);
      }
    });
    const double beside = share(mine, &companion);
    companion.finish();
    return Json::Object{{"mine", mine ? "write" : "read"},
                        {"other", other.writes ? "write" : "read"},
                        {"other_in_transactions", other.in_transactions},
                        {"alone_share", rounded(alone)},
                        {"share", rounded(beside)},
                        {"tries", kTimes}};
  }

  int where() const {
    if (const auto other = transactor_.other_core()) return *other;
    throw NotMeasured("this process may use only one core, and readers and writers need two");
  }

  // The share of commits of transactions that touch the line and stay for a while. Nothing is retried: with a
  // permanently active competitor a retry would hide the abort.
  double share(bool write, const Companion* companion) const {
    const Walk walk{
        .base = space_.data(), .stride = 1, .count = 1, .write = write, .times = transactor_.dwelling()};
    transactor_.prepare(walk);
    const auto attempt = [&] {
      htm::Ended ended;
      return transactor_.attempt(transactor_.first(), {&walk, 1}, ended);
    };
    int commits = 0;
    for (int tries = 0; tries < kTimes;) {
      budget_.check();
      const std::optional<bool> committed = companion != nullptr ? companion->beside(attempt) : attempt();
      if (!committed) continue;
      ++tries;
      commits += *committed ? 1 : 0;
    }
    return static_cast<double>(commits) / kTimes;
  }

  Transactor& transactor_;
  Budget budget_;
  Space space_;
  Findings found_;
};

}  // namespace

Json find_conflicts(Transactor& transactor, Budget budget) { return Conflicts(transactor, budget).find(); }

}  // namespace tmflow::probe
