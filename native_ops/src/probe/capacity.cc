// The capacity of a transaction, and what limits it.
#include <algorithm>

#include "tmflow/probe/parts.hpp"
#include "tmflow/probe/update_capacity.hpp"
#include "trials.hpp"

namespace tmflow::probe {
namespace {

// Strides are powers of two in this range; a repetition at a larger distance is not found.
constexpr std::size_t kFirstStride = 32, kLastStride = std::size_t{1} << 20;
constexpr std::size_t kMostWays = 256;
constexpr std::size_t kSpace = kMostWays * kLastStride, kHalf = kSpace / 2;
constexpr std::size_t kMostRead = std::size_t{16} << 20;  // bytes
constexpr int kCurveTries = 100;

class Capacity {
 public:
  Capacity(Transactor& transactor, Budget budget)
      : space_(kSpace + (std::size_t{1} << 16)), trials_(transactor, space_.data(), budget) {}

  Json find(Fits& fits) {
    ways_ = found_.find("ways", [&] { return ways(); });
    span_ = found_.find("span_bytes", [&] { return span(); });
    line_ = fits.line_bytes = found_.find("line_bytes", [&] { return line(); });
    const auto sets =
        found_.find("sets", [&] { return needed(span_, "the span") / needed(line_, "the size of a line"); });
    writes_ = fits.write_lines = found_.find("write_lines", [&] { return written(needed_line()); });
    reads_ = found_.find("read_lines", [&] { return read(); });
    found_.find("mixed_lines", [&] { return mixed(); });
    found_.find("writes_of_a_set", [&] { return half_of_a_set(); });
    const auto beside = found_.find("reads_beside", [&] { return reads_beside(); });
    found_.find("reads_fill", [&] { return beside || reads_fill(); });
    found_.find("shape", [&] { return shape(needed(sets, "the number of sets")); });
    found_.find("by_stride", [&] { return by_stride(); });
    found_.find("write_curve", [&] { return curve(needed_writes(), true); });
    found_.find("read_curve", [&] { return curve(needed(reads_, "the capacity for reads"), false); });
    return found_.json();
  }

  UpdateCapacity of_updates() {
    ways_ = ways();
    span_ = span();
    line_ = line();
    return {.line_bytes = *line_, .written_lines = written(*line_), .touched_lines = mixed()};
  }

 private:
  static std::vector<Walk> strided(char* base, std::size_t stride, std::size_t n, bool write,
                                   std::size_t shift = 0) {
    return {{.base = base, .stride = stride, .count = n, .write = write, .shift = shift}};
  }

  bool fits(std::size_t n, std::size_t stride, bool write, std::size_t shift = 0) const {
    return trials_.fit([&](char* base) { return strided(base, stride, n, write, shift); });
  }

  std::size_t needed_line() const { return needed(line_, "the size of a line"); }
  std::size_t needed_writes() const { return needed(writes_, "the capacity for writes"); }

  // Too many places for one set, and few enough for two.
  std::size_t too_many() const {
    const std::size_t ways = needed(ways_, "the number of ways");
    return ways + (ways + 1) / 2;
  }

  // The places are so far apart that all are in one set.
  std::size_t ways() const {
    const std::size_t most = largest(kMostWays, [&](std::size_t n) { return fits(n, kLastStride, true); });
    if (most == 0)
      throw NotMeasured(
          "even transactions that write a single place committed in less than half of the tries");
    if (most == kMostWays) {
      throw NotMeasured("transactions that write " + std::to_string(kMostWays) +
                        " places, 1 MiB apart, commit: no limit was found");
    }
    return most;
  }

  // The smallest stride at which all places are in one set.
  std::size_t span() const {
    std::size_t stride = kLastStride;
    while (stride > kFirstStride && !fits(too_many(), stride / 2, true)) stride /= 2;
    return stride;
  }

  // The smallest shift that moves every second place of a set into another one. If no shift does, there is
  // only one set, and each of its places is a line.
  std::size_t line() const {
    const std::size_t span = needed(span_, "the span");
    for (std::size_t shift = 8; shift < span; shift *= 2) {
      if (fits(too_many(), span, true, shift)) return shift;
    }
    return span;
  }

  std::size_t limit(std::size_t most, std::size_t stride, bool write) const {
    return trials_.limit(most, [&](char* base, std::size_t n) { return strided(base, stride, n, write); });
  }

  std::size_t written(std::size_t stride) const { return limit(kHalf / stride, stride, true); }

  std::size_t read() const {
    const std::size_t most = kMostRead / needed_line(), lines = limit(most, needed_line(), false);
    if (lines == most) {
      throw NotMeasured("transactions that read " + std::to_string(kMostRead >> 20) +
                        " MiB commit: no limit was found");
    }
    return lines;
  }

  // Writes half of the lines, and then reads as many others, which follow them in the order of the sets.
  std::size_t mixed() const {
    const std::size_t line = needed_line();
    return trials_.limit(kHalf / line, [&](char* base, std::size_t n) -> std::vector<Walk> {
      const std::size_t read = n / 2, written = n - read;
      return {{.base = base, .stride = line, .count = written, .write = true},
              {.base = base + kHalf + written * line, .stride = line, .count = read, .write = false}};
    });
  }

  std::size_t half_of_a_set() const {
    return std::max<std::size_t>(needed(ways_, "the number of ways") / 2, 1);
  }

  // Writes half of a set, and then reads so many other lines of it.
  bool fits_beside_writes(std::size_t reads) const {
    const std::size_t span = needed(span_, "the span"), writes = half_of_a_set();
    return trials_.fit([&](char* base) -> std::vector<Walk> {
      return {{.base = base, .stride = span, .count = writes, .write = true},
              {.base = base + writes * span, .stride = span, .count = reads, .write = false}};
    });
  }

  std::size_t most_beside() const {
    return std::min(4 * needed(ways_, "the number of ways"), kHalf / needed(span_, "the span"));
  }

  std::size_t reads_beside() const {
    const std::size_t reads = largest(most_beside(), [&](std::size_t n) { return fits_beside_writes(n); });
    if (reads == most_beside()) {
      throw NotMeasured("written lines stay in the cache although " + std::to_string(reads) +
                        " other lines of their set are read afterwards");
    }
    return reads;
  }

  bool reads_fill() const { return !fits_beside_writes(most_beside()); }

  // A limited number of entries looks like one set, but then it limits the reads as well.
  std::string shape(std::size_t sets) const {
    return sets == 1 && reads_ && *reads_ <= 2 * needed_writes() ? "entries" : "cache";
  }

  Json by_stride() const {
    Json::Array all;
    const std::size_t last = std::min(2 * needed(span_, "the span"), kLastStride);
    for (std::size_t stride = needed_line(); stride <= last; stride *= 2) {
      all.push_back(Json::Object{{"stride_bytes", stride}, {"lines", written(stride)}});
    }
    return all;
  }

  // How the share of commits falls around the capacity.
  Json curve(std::size_t capacity, bool write) const {
    Json::Array all;
    std::size_t before = 0;
    for (const double part : {0.5, 0.75, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0}) {
      const auto n = static_cast<std::size_t>(part * static_cast<double>(capacity) + 0.5);
      if (n == before || n == 0) continue;
      before = n;
      const auto share =
          trials_.share(n, [&](char* base) { return strided(base, needed_line(), n, write); }, kCurveTries);
      all.push_back(share.json());
    }
    return all;
  }

  Space space_;
  Trials trials_;
  Findings found_;
  std::optional<std::size_t> ways_, span_, line_, writes_, reads_;
};

}  // namespace

Json find_capacity(Transactor& transactor, Budget budget, Fits& fits) {
  return Capacity(transactor, budget).find(fits);
}

UpdateCapacity find_update_capacity(Transactor& transactor, Budget budget) {
  return Capacity(transactor, budget).of_updates();
}

}  // namespace tmflow::probe
