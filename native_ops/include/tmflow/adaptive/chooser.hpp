// Which of several ways to take: a guess at first, and then what was seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tmflow::adaptive {

// What happened between two looks.
struct Seen {
  double seconds;
  std::int64_t updates = 0;
  int threads = 0;  // that made any, or are making one
};

// Chooses among `ways` ways, numbered from 0, for as many threads as there are now. It begins with a guess
// and stays with what is best so far; now and then it tries another way for one look, never for more than a
// fiftieth of all time, and changes to it if it was clearly faster. When it sees another number of threads
// twice in a row, it forgets what it saw and guesses anew. Once does not count: a thread that loses its
// processor for a moment makes no updates, and what was measured with it still holds.
//
// Not for several threads at once.
class Chooser {
 public:
  static constexpr double kShareOfTrials = 0.02;
  static constexpr double kClearly = 0.95;  // of the time of the best so far

  explicit Chooser(std::size_t ways) : us_(ways, kUnknown) {}

  std::size_t now() const noexcept { return now_; }
  int threads() const noexcept { return threads_; }

  // The way from now on, after what was seen of the one so far. guess(threads): the way to begin with. Of a
  // time in which nothing happened, or in which another number of threads was at work, nothing is learnt.
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

  // In turn, so that each is tried again one day: what was slow once may not be for ever.
  std::size_t next_to_try() noexcept {
    tried_ = (tried_ + 1) % us_.size();
    if (tried_ == best_) tried_ = (tried_ + 1) % us_.size();
    return tried_;
  }

  std::vector<double> us_;  // by way, per update, as last seen
  std::size_t best_ = 0, now_ = 0, tried_ = 0;
  int threads_ = 0;  // for which us_ holds
  int seen_ = 0;     // as many as were seen last
  double all_s_ = 0, trials_s_ = 0;
};

}  // namespace tmflow::adaptive
