// The memory of live regions. Two regions over the same elements would each have a mutex, and so would not
// exclude each other.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>

namespace tmflow::python {

// Holds `memory` for one region as long as it lives. Throws std::invalid_argument if it overlaps another
// claim. Memory ordering: a mutex guards the list of claims; the memory itself is not accessed.
class MemoryClaim {
 public:
  template <class T>
  explicit MemoryClaim(std::span<T> memory)
      : begin_(reinterpret_cast<std::uintptr_t>(memory.data())), end_(begin_ + memory.size_bytes()) {
    if (begin_ == end_) return;
    const std::lock_guard held(mutex());
    const auto next = claims().lower_bound(begin_);
    const bool into_next = next != claims().end() && next->first < end_;
    const bool from_last = next != claims().begin() && std::prev(next)->second > begin_;
    if (into_next || from_last) {
      throw std::invalid_argument(
          "array overlaps the memory of another region, which has a different mutex: apply the updates to "
          "that region");
    }
    claims().emplace(begin_, end_);
  }

  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  ~MemoryClaim() {
    if (begin_ == end_) return;
    const std::lock_guard held(mutex());
    claims().erase(begin_);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  // Maps the begin of each claim to its end.
  static std::map<std::uintptr_t, std::uintptr_t>& claims() {
    static std::map<std::uintptr_t, std::uintptr_t> all;
    return all;
  }

  const std::uintptr_t begin_, end_;
};

}  // namespace tmflow::python
