// Memory in large pages, for arrays that are read at random.
#pragma once

#include <cstddef>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tmflow {

// An allocator that asks Linux for pages of 2 MiB. A processor keeps the addresses of a few thousand pages:
// of an array of 100 MB in pages of 4 KiB it must look up nearly every one that is read at random, and a
// prefetch of it comes too late. Where Linux has no large page, the memory is in small ones.
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
