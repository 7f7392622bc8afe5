// Memory in large pages, for arrays that are read at random.
#pragma once

#include <cstddef>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tmflow {

// An allocator that asks Linux for large pages (2 MiB on x86). A processor keeps the addresses of a few
// thousand pages. An array of 100 MB has more pages of 4 KiB than that, so nearly each random read must look
// up the address of its page first, and a prefetch comes too late. If Linux has no large page left, the
// memory is in small ones.
template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) noexcept {}

  T* allocate(std::size_t n) {
    void* const memory = ::operator new(n * sizeof(T), alignment(n));
#if defined(__linux__)
    if (alignment(n) == kPage) static_cast<void>(madvise(memory, n * sizeof(T), MADV_HUGEPAGE));
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) noexcept { ::operator delete(memory, alignment(n)); }

  bool operator==(const LargePages&) const = default;

 private:
  static constexpr std::align_val_t kPage{std::size_t{1} << 21};

  // Arrays that fill few pages are not worth one.
  static constexpr std::align_val_t alignment(std::size_t n) noexcept {
    return n * sizeof(T) >= 4 * static_cast<std::size_t>(kPage) ? kPage : std::align_val_t{alignof(T)};
  }
};

}  // namespace tmflow
