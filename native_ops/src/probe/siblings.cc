// How much of a transaction's capacity another hardware thread of the core takes.
#include <algorithm>

#include "companion.hpp"
#include "tmflow/probe/parts.hpp"
#include "trials.hpp"

namespace tmflow::probe {
namespace {

// The sibling's places lie behind those of the measured transaction.
constexpr std::size_t kSpace = std::size_t{128} << 20, kOthers = kSpace / 2;

class Siblings {
 public:
  Siblings(Transactor& transactor, const Fits& fits, Budget budget)
      : transactor_(transactor), fits_(fits), budget_(budget), space_(kSpace + (1 << 16)) {}

  Json find() {
    const auto alone = found_.find("alone_lines", [&] {
      candidates();
      return measured(nullptr);
    });
    const auto beside_the_nearest = [&](bool in_transactions) {
      const int nearest = candidates().front();
      return beside(nearest, in_transactions, needed(alone, "the capacity of one thread alone"));
    };
    found_.find("beside_transactions_lines", [&] { return beside_the_nearest(true); });
    found_.find("beside_loads_lines", [&] { return beside_the_nearest(false); });
    found_.find("sharing_threads", [&] { return sharing(alone); });
    return found_.json();
  }

 private:
  std::vector<int> candidates() const {
    auto numbers = transactor_.siblings();
    if (numbers.empty()) {
      throw NotMeasured(
          "this process cannot use two hardware threads of one core: simultaneous multithreading is absent, "
          "off or not reported, or the process is limited to one thread");
    }
    return numbers;
  }

  std::size_t line() const { return needed(fits_.line_bytes, "the size of a line"); }
  std::size_t writes() const { return needed(fits_.write_lines, "the capacity for writes"); }

  // The transaction stays for a while, so that the sibling can interfere with it.
  std::size_t measured(const Companion* beside) const {
    const Trials trials(transactor_, space_.data(), budget_, beside);
    const std::size_t stay = transactor_.dwelling();
    return trials.limit(2 * writes(), [&](char* base, std::size_t n) -> std::vector<Walk> {
      return {{.base = base, .stride = line(), .count = n, .write = true},
              {.base = base, .stride = line(), .count = 1, .write = true, .times = stay}};
    });
  }

  // The lines that fit while another thread repeatedly touches half as many lines as fit alone. In
  // transactions that thread stays for a while too, so that it holds all its lines nearly all the time.
  std::size_t beside(int thread, bool in_transactions, std::size_t alone) const {
    const Walk theirs{.base = space_.data() + kOthers,
                      .stride = line(),
                      .count = std::max<std::size_t>(alone / 2, 1),
                      .write = in_transactions};
    Walk stay = theirs;
    stay.count = 1;
    stay.times = transactor_.dwelling() / 4;
    const std::vector<Walk> walks{theirs, stay};
    transactor_.prepare(theirs);
    Companion companion(transactor_, thread, [&] {
      htm::Ended ended;
      if (in_transactions) {
        transactor_.attempt(thread, walks, ended);
      } else {
        transactor_.outside(thread, theirs);
      }
    });
    const std::size_t lines = measured(&companion);
    companion.finish();
    return lines;
  }

  // The number of threads that share the capacity: the first, and those beside which clearly fewer lines fit.
  std::size_t sharing(const std::optional<std::size_t>& alone) const {
    std::size_t threads = 1;
    for (const int thread : candidates()) {
      const std::size_t fits_alone = needed(alone, "the capacity of one thread alone");
      if (10 * beside(thread, true, fits_alone) < 9 * fits_alone) ++threads;
    }
    return threads;
  }

  Transactor& transactor_;
  const Fits& fits_;
  Budget budget_;
  Space space_;
  Findings found_;
};

}  // namespace

Json find_siblings(Transactor& transactor, const Fits& fits, Budget budget) {
  return Siblings(transactor, fits, budget).find();
}

}  // namespace tmflow::probe
