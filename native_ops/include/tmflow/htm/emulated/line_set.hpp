// The lines that a transaction has touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tmflow::htm::emulated {

// The number of a line: an address divided by the size of lines.
using Line = std::uintptr_t;

// A set of lines, each read or written: a hash table with open addressing whose slots are valid for one epoch
// only, so that a transaction ends without traversing them. Not thread-safe.
class LineSet {
 public:
  bool has(Line line) const { return slots_[slot_of(line)].epoch == epoch_; }
  bool has_written(Line line) const {
    const Slot& slot = slots_[slot_of(line)];
    return slot.epoch == epoch_ && slot.written;
  }
  std::size_t size() const { return size_; }

  void add(Line line, bool written) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(line)];
    if (slot.epoch != epoch_) {
      slot = {.line = line, .epoch = epoch_, .written = written};
      ++size_;
    } else {
      slot.written |= written;
    }
  }

  // Memory that one long transaction needed is freed when a short one ends, because for_each_written
  // traverses all of it.
  void clear() {
    if (slots_.size() > kFewest && 64 * size_ < slots_.size()) slots_ = std::vector<Slot>(kFewest);
    ++epoch_;
    size_ = 0;
  }

  template <class Visit>
  void for_each_written(const Visit& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.epoch == epoch_ && slot.written) visit(slot.line);
    }
  }

 private:
  struct Slot {
    Line line = 0;
    std::uint64_t epoch = 0;  // never the current one before the slot is used
    bool written = false;
  };

  // The slot of the line, or the free one for it.
  std::size_t slot_of(Line line) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>((std::uint64_t{line} * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (slots_[at].epoch == epoch_ && slots_[at].line != line) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const std::vector<Slot> before(std::move(slots_));
    slots_ = std::vector<Slot>(2 * before.size());
    for (const Slot& slot : before) {
      if (slot.epoch == epoch_) slots_[slot_of(slot.line)] = slot;
    }
  }

  static constexpr std::size_t kFewest = 64;  // slots; a power of two

  std::vector<Slot> slots_ = std::vector<Slot>(kFewest);
  std::size_t size_ = 0;
  std::uint64_t epoch_ = 1;
};

}  // namespace tmflow::htm::emulated
