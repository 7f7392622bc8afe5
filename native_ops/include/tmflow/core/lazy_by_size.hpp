// State of a strategy for a variable that it cannot create before it knows the variable's size.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>

namespace tmflow {

// An object of type Made for each size that a variable has had: one, or a few if the variable is assigned
// values of other shapes. Memory of another size is other memory, so the locks of the one need not be those
// of the other. An object lives as long as the strategy and does not move.
//
// Memory ordering: an entry is complete before the exchange that puts it at the head of the list releases it.
// A thread that finds it has acquired the head, or got it from an entry that was complete. Entries are never
// removed. If two threads create entries of the same size, the second one's exchange fails because the head
// has changed; it looks again, finds the first one's, and deletes its own.
template <class Made, template <class> class Atom = std::atomic>
class LazyBySize {
 public:
  LazyBySize() = default;
  LazyBySize(const LazyBySize&) = delete;
  LazyBySize& operator=(const LazyBySize&) = delete;

  ~LazyBySize() {
    for (Entry* entry = head_.load(std::memory_order_relaxed); entry != nullptr;) {
      const std::unique_ptr<Entry> last(entry);
      entry = entry->next;
    }
  }

  // The object of that size, made from the arguments at the first call. Propagates exceptions of its
  // constructor.
  template <class... Arguments>
    requires std::constructible_from<Made, Arguments...>
  Made& of(std::size_t size, const Arguments&... arguments) {
    Entry* const head = head_.load(std::memory_order_acquire);
    if (head != nullptr && head->size == size) return head->made;  // the usual case
    return found_or_made(head, size, arguments...);
  }

 private:
  struct Entry {
    template <class... Arguments>
    Entry(std::size_t entry_size, const Arguments&... arguments) : size(entry_size), made(arguments...) {}

    const std::size_t size;
    Entry* next = nullptr;
    Made made;
  };

  template <class... Arguments>
  Made& found_or_made(Entry* head, std::size_t size, const Arguments&... arguments) {
    std::unique_ptr<Entry> fresh;
    while (true) {
      for (Entry* entry = head; entry != nullptr; entry = entry->next) {
        if (entry->size == size) return entry->made;
      }
      if (fresh == nullptr) fresh = std::make_unique<Entry>(size, arguments...);
      fresh->next = head;
      if (head_.compare_exchange_strong(head, fresh.get(), std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        return fresh.release()->made;
      }
    }
  }

  Atom<Entry*> head_{nullptr};
};

}  // namespace tmflow
