// Whether transactions that touch given places commit, tried often enough for a decision.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "companion.hpp"
#include "tmflow/probe/budget.hpp"
#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {

// Address space of which only the touched pages use memory.
class Space {
 public:
  explicit Space(std::size_t bytes);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_;
};

// The base is the start of a page, or kRotation bytes further, and so on. The code's own data is always in
// the same cache sets; with the rotation those are not always the measured ones.
using Places = std::function<std::vector<Walk>(char* base)>;
using SizedPlaces = std::function<std::vector<Walk>(char* base, std::size_t n)>;
inline constexpr std::size_t kRotation = 512, kRotations = 8;

// An abort for a reason other than capacity is retried up to kRetries times, so that interrupts are not
// mistaken for the limit.
inline constexpr int kTries = 41, kRetries = 20;

// How many tries of one set of places committed.
struct Share {
  std::size_t places = 0;
  int tries = 0, commits = 0, lacks = 0;  // `lacks`: those that ended for lack of capacity

  Json json() const;
};

// All functions throw NotMeasured when the time is over.
class Trials {
 public:
  // `beside`: another thread that must be at work during every try.
  Trials(Transactor& transactor, char* base, Budget budget, const Companion* beside = nullptr)
      : transactor_(transactor), base_(base), budget_(budget), beside_(beside) {}

  Share share(std::size_t places, const Places& walks, int tries = kTries) const;

  // Whether at least half of the tries commit.
  bool fit(const Places& walks) const;

  // The largest n up to `most` that fits; `most` if no limit is found. Throws NotMeasured if more tries abort
  // for reasons other than size.
  std::size_t limit(std::size_t most, const SizedPlaces& walks) const;

 private:
  enum class End { commit, lack, other };
  End one(int number, const Places& walks) const;
  bool attempt(const std::vector<Walk>& walks, htm::Ended& ended) const;

  Transactor& transactor_;
  char* base_;
  Budget budget_;
  const Companion* beside_;
};

// The largest number up to `most` that fits, found by doubling and then halving the step; 0 if none fits.
template <class Fit>
std::size_t largest(std::size_t most, const Fit& fits) {
  std::size_t good = 0, next = 1;
  while (fits(next)) {
    good = next;
    if (good == most) return most;
    next = std::min(2 * good, most);
  }
  std::size_t bad = next;
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace tmflow::probe
