// The shadow of a variable: it shows, in real training, which updates were lost and which reads were torn.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tmflow/measure/counters.hpp"

namespace tmflow {

// It belongs to one variable, whose updates run `around` at the place where they change its elements, under
// the same protection. It is for strategies that update in place, each element once: discarded work would be
// counted too.
//
// Lost updates. Each block of the variable has a count of element updates, a double that is changed like the
// elements: a kernel loads, changes and stores it, next to the block and under the same protection, which may
// be none. So it behaves like one more element of its block, and loses updates as the block does. The
// difference at the end is the share of lost updates, found by sampling one element of a block.
//
// Torn reads. Each block has two sums, `begun` and `ended`. An update adds its id, a random number, to the
// first before it touches the block and to the second when it has finished. The additions are atomic under
// every strategy, so the sums lose nothing. A reader loads `ended` before it copies the block and `begun`
// after that (WatchedRead):
//
// - Both are sums over sets of updates, and the set of `ended` is part of that of `begun`: an update ends
//   after it begins. If the sums are equal, so are the sets, and no update was in progress in the block while
//   it was copied: the copy is that of the block after exactly these updates. (Two different sets have the
//   same sum with probability 2^-32, because ids are random.) If they differ, an update overlapped the copy.
//   It may by chance have left no trace in it; such a read counts as torn, because this cannot be known.
// - If all blocks are whole and have the same sum, they contain the same updates: the copy is the variable
//   after these updates. If sums differ, some update is in one block and not in another.
// - An update in parts adds to each block, part by part, differences of one function of the place, which is 0
//   at the block's beginning, the id at its end, and random in between. So the parts add up to the id exactly
//   when all parts of the block have been added. Ids end in 32 zero bits and the values in between do not: a
//   sum with missing parts differs from one over complete updates (again except for 2^-32).
//
// Updates of rows change different blocks, so their sums are not compared. Instead each block has stamps: of
// each worker the number of its last update that changed the block. They are stored before the addition to
// `ended`, and read as a part of the copy (WatchedRows).
//
// Inconsistent slots. If the variable has slots (an optimiser's arrays), each block has two more sums of ids,
// one for the slots and one for the elements, which are changed under the protection of the update, which may
// be none. At the end they differ exactly if
// the block's element contains another set of updates than its slots (except for 2^-24, as the sums are of 24
// random bits of each id, which a double adds up exactly for 2^29 updates). Once different they stay so: the
// sample shows whether the block ever lost one of the two, not how often.
//
// Memory ordering: a thread that sees a changed element must see the beginning, and must not see the end
// before all changes. So a release fence stands between the addition to `begun` and the changes. It pairs
// with the reader's acquire fence between the copy and its load of `begun`: a reader that copied a changed
// element sees the addition. The addition to `ended` releases the changes, and the reader's load of it
// acquires them. In a hardware transaction the additions appear with the changes, at the commit.
class Shadow {
 public:
  // Elements of a block; the last one of the variable, and of what a lock guards, may be shorter.
  static constexpr std::size_t kBlock = 1024;

  // Like tmflow::Kernel<double>: it changes the counts.
  using CountKernel = void (*)(double* variable, const double* delta, double alpha, std::size_t n) noexcept;

  // Identifies an update of rows: the worker's update of this number, from 1.
  struct Stamp {
    std::size_t worker = 0;
    std::int64_t number = 0;
  };

  // `guarded`: the number of elements that a lock guards, if the variable has several locks. No block of the
  // shadow is under two locks: otherwise two updates of its elements could be in progress at the same time,
  // and its count would lose updates that the elements do not. `stampers`: the workers with stamps, if
  // updates are of rows.
  Shadow(std::size_t elements, CountKernel kernel,
         std::size_t guarded = std::numeric_limits<std::size_t>::max(), bool has_slots = false,
         std::size_t stampers = 0)
      : elements_(elements),
        guarded_(std::min(guarded, std::max<std::size_t>(elements, 1))),
        blocks_(elements == 0 ? 0 : block_of(elements - 1) + 1),
        contained_(has_slots ? blocks_.size() : 0),
        stampers_((stampers + kStampsOfLine - 1) / kStampsOfLine * kStampsOfLine),
        stamps_(blocks_.size() * stampers_),
        kernel_(kernel) {}

  std::size_t elements() const noexcept { return elements_; }
  std::size_t blocks() const noexcept { return blocks_.size(); }

  // The id of a new update. Each thread draws its ids independently.
  static std::uint64_t new_id() noexcept {
    static std::atomic<std::uint64_t> threads{0};
    thread_local std::uint64_t state = mixed(threads.fetch_add(1, std::memory_order_relaxed) + 1);
    state += kStride;
    return mixed(state) << 32;
  }

  // Whether a sum consists of complete updates of the block.
  static bool is_whole(std::uint64_t sum) noexcept { return static_cast<std::uint32_t>(sum) == 0; }

  // Runs `change(begin, n)` on the elements [first, first + count), block by block, for the update `id`.
  // `stamp`: of an update of rows, if there are stamps.
  template <class Change>
  void around(std::uint64_t id, std::size_t first, std::size_t count, const Change& change,
              Stamp stamp = {}) {
    for_each_part(first, count, [&](std::size_t begin, std::size_t n) {
      const std::size_t number = block_of(begin);
      Block& block = blocks_[number];
      const std::uint64_t part = weight(id, begin + n, number) - weight(id, begin, number);
      block.begun.fetch_add(part, std::memory_order_relaxed);
      fence(std::memory_order_release);
      change(begin, n);
      const auto changed = static_cast<double>(n);
      kernel_(&block.count, &changed, -1, 1);
      if (!contained_.empty()) contained_[number].add(kernel_, static_cast<double>(id >> 40));
      if (stampers_ != 0) {
        stamps_[number * stampers_ + stamp.worker].store(stamp.number, std::memory_order_relaxed);
      }
      block.ended.fetch_add(part, std::memory_order_release);
    });
  }

  struct Sums {
    std::uint64_t ended, begun;
  };

  // Runs `copy`, which copies from the block of the element `begin`; returns the sums before and after it.
  template <class Copying>
  Sums beside(std::size_t begin, const Copying& copy) const {
    const Block& block = blocks_[block_of(begin)];
    const std::uint64_t ended = block.ended.load(std::memory_order_acquire);
    copy();
    fence(std::memory_order_acquire);
    return {ended, block.begun.load(std::memory_order_relaxed)};
  }

  // The stamps of the block of that element, by worker; as a part of the copy that runs `beside`.
  void copy_stamps(std::size_t begin, std::span<std::int64_t> into) const noexcept {
    const std::size_t first = block_of(begin) * stampers_;
    for (std::size_t worker = 0; worker < into.size(); ++worker) {
      into[worker] = stamps_[first + worker].load(std::memory_order_relaxed);
    }
  }

  // Runs `part(begin, n)` on the parts of [first, first + count) that lie in one block each.
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, const Part& part) const {
    for (std::size_t begin = first, end = first + count; begin < end;) {
      const std::size_t n = std::min(end_of(block_of(begin)), end) - begin;
      part(begin, n);
      begin += n;
    }
  }

  // The updates that were not lost, summed over all elements. Must be called while no thread updates.
  std::int64_t kept() const noexcept {
    double all = 0;
    for (const Block& block : blocks_) all += block.count;
    return static_cast<std::int64_t>(all);
  }

  // The elements of the blocks whose element contains other updates than their slots; nullopt without slots.
  // Must be called while no thread updates.
  std::optional<std::int64_t> inconsistent() const noexcept {
    if (contained_.empty()) return std::nullopt;
    std::size_t all = 0;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (contained_[block].slots != contained_[block].element) all += end_of(block) - begin_of(block);
    }
    return static_cast<std::int64_t>(all);
  }

  // Resets to the state before any update. Must be called while no thread updates or reads.
  void reset() noexcept {
    for (Block& block : blocks_) {
      block.begun.store(0, std::memory_order_relaxed);
      block.ended.store(0, std::memory_order_relaxed);
      block.count = 0;
    }
    std::ranges::fill(contained_, Contained{});
    for (auto& stamp : stamps_) stamp.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15;

  // The count is on a separate cache line, as the block's elements are. In one line with the sums, whose
  // additions take the line exclusively, it would lose fewer updates than the elements do.
  struct alignas(kCacheLine) Block {
    std::atomic<std::uint64_t> begun{0}, ended{0};
    alignas(kCacheLine) double count = 0;
  };

  // Sums of the updates that a block's slots contain, and its element; on separate lines, as the arrays are.
  struct Contained {
    void add(CountKernel kernel, double update) noexcept {
      kernel(&slots, &update, -1, 1);
      kernel(&element, &update, -1, 1);
    }

    alignas(kCacheLine) double slots = 0;
    alignas(kCacheLine) double element = 0;
  };

  std::size_t blocks_per_lock() const noexcept { return (guarded_ + kBlock - 1) / kBlock; }
  std::size_t block_of(std::size_t place) const noexcept {
    return place / guarded_ * blocks_per_lock() + place % guarded_ / kBlock;
  }
  std::size_t begin_of(std::size_t block) const noexcept {
    return block / blocks_per_lock() * guarded_ + block % blocks_per_lock() * kBlock;
  }
  std::size_t end_of(std::size_t block) const noexcept {
    const std::size_t end_of_lock = (block / blocks_per_lock() + 1) * guarded_;
    return std::min({begin_of(block) + kBlock, end_of_lock, elements_});
  }

  // SplitMix64's.
  static std::uint64_t mixed(std::uint64_t x) noexcept {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }

  // The sum of the parts of the update up to `place`, for the block of this number.
  std::uint64_t weight(std::uint64_t id, std::size_t place, std::size_t block) const noexcept {
    if (place == begin_of(block)) return 0;
    if (place == end_of(block)) return id;
    return mixed(id + kStride * place);
  }

  // ThreadSanitizer does not support fences, and does not need these: the races on the elements that they
  // order are allowed by the contract, or the strategy guards the elements.
  static void fence([[maybe_unused]] std::memory_order order) noexcept {
#if !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(order);
#endif
  }

  const std::size_t elements_, guarded_;
  std::vector<Block> blocks_;
  std::vector<Contained> contained_;  // by block; empty without slots
  // Rounded up, so that updates of different blocks write different lines: transactions would conflict.
  static constexpr std::size_t kStampsOfLine = kCacheLine / sizeof(std::int64_t);
  const std::size_t stampers_;
  std::vector<std::atomic<std::int64_t>> stamps_;  // by block and worker
  const CountKernel kernel_;
};

// One read of a variable that has a shadow. If a range is read again, the last read counts, because the
// earlier copy was discarded.
class WatchedRead {
 public:
  explicit WatchedRead(const Shadow& shadow) : shadow_(shadow) { parts_.reserve(shadow.blocks()); }

  // Runs `copy(begin, n)` on the elements [first, first + count), block by block.
  template <class Copying>
  void around(std::size_t first, std::size_t count, const Copying& copy) {
    shadow_.for_each_part(first, count, [&](std::size_t begin, std::size_t n) {
      note(begin, begin + n, shadow_.beside(begin, [&] { copy(begin, n); }));
    });
  }

  // Whether the copy was not the variable as it was after any set of updates.
  bool torn() const noexcept {
    return torn_parts() > 0 ||
           std::ranges::any_of(parts_, [&](const Part& part) { return part.sum != parts_.front().sum; });
  }

  // The number of blocks, or of the parts in which they were read, that were torn in themselves.
  std::int64_t torn_parts() const noexcept {
    return std::ranges::count_if(parts_, [](const Part& part) { return !part.intact; });
  }

 private:
  struct Part {
    std::size_t begin, end;
    std::uint64_t sum;
    bool intact;
  };

  void note(std::size_t begin, std::size_t end, const Shadow::Sums& sums) {
    const auto from =
        std::ranges::partition_point(parts_, [&](const Part& part) { return part.end <= begin; });
    const auto to = std::ranges::partition_point(parts_, [&](const Part& part) { return part.begin < end; });
    const bool intact = sums.ended == sums.begun && Shadow::is_whole(sums.begun);
    parts_.insert(parts_.erase(from, to), {begin, end, sums.begun, intact});
  }

  const Shadow& shadow_;
  std::vector<Part> parts_;  // in order of place, none of them overlapping another
};

}  // namespace tmflow
