// The choice among several strategies: first a guess, and then measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tmflow::adaptive {

// The updates between two looks.
struct Seen {
  double seconds;
  std::int64_t updates = 0;
  int threads = 0;  // threads that made an update, or are making one
};

// Chooses among `ways` strategies, numbered from 0, for the current number of threads. It begins with a guess
// and keeps the best so far. From time to time it tries another one for one look, for at most a fiftieth of
// all time, and changes to it if it was clearly faster. When it sees another number of threads twice in a
// row, it discards its measurements and guesses again. Seeing it once is not enough: a thread that loses its
// processor for a moment makes no updates, and the measurements with it are still valid.
//
// Not thread-safe.
class Chooser {
 public:
  static constexpr double kShareOfTrials = 0.02;
  static constexpr double kClearly = 0.95;  // of the time of the best so far

  explicit Chooser(std::size_t ways) : us_(ways, kUnknown) {}

  std::size_t now() const noexcept { return now_; }
  int threads() const noexcept { return threads_; }

  // The strategy from now on, after the look at the current one. guess(threads): the initial strategy. A
  // period in which nothing happened, or in which another number of threads was active, is ignored.
  template <class Guess>
  std::size_t look(const Seen& seen, const Guess& guess) {
    if (seen.updates == 0) return now_;
    if (seen.threads != threads_ && (threads_ == 0 || seen.threads == seen_)) {
      return begin(seen.threads, guess(seen.threads));
    }
    seen_ = seen.threads;
    all_s_ += seen.seconds;
    if (now_ != best_) trials_s_ += seen.seconds;
    if (seen.threads != threads_) return now_ = best_;
    const double us = seen.seconds / static_cast<double>(seen.updates);
    us_[now_] = us;
    if (now_ != best_) {
      if (us < kClearly * us_[best_]) best_ = now_;
      return now_ = best_;
    }
    if (trials_s_ + seen.seconds <= kShareOfTrials * all_s_) now_ = next_to_try();
    return now_;
  }

 private:
  static constexpr double kUnknown = 0;

  std::size_t begin(int threads, std::size_t guess) {
    threads_ = seen_ = threads;
    us_.assign(us_.size(), kUnknown);
    trials_s_ = all_s_ = 0;
    return now_ = best_ = guess;
  }

  // In turn, so that each is tried again eventually: a strategy that was slow once may become faster.
  std::size_t next_to_try() noexcept {
    tried_ = (tried_ + 1) % us_.size();
    if (tried_ == best_) tried_ = (tried_ + 1) % us_.size();
    return tried_;
  }

  std::vector<double> us_;  // by strategy, per update, as last measured
  std::size_t best_ = 0, now_ = 0, tried_ = 0;
  int threads_ = 0;  // the number for which us_ is valid
  int seen_ = 0;     // the number at the last look
  double all_s_ = 0, trials_s_ = 0;
};

}  // namespace tmflow::adaptive
