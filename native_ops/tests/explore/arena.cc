// The memory of one execution: `new` and `delete` of this program.
#include "arena.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tmflow::explore::arena {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constinit bool wanted_now = false;
constinit std::size_t used = 0;
alignas(4096) constinit unsigned char memory[kBytes] = {};

bool owns(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address), begin = reinterpret_cast<std::uintptr_t>(memory);
  return at >= begin && at < begin + kBytes;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (!wanted_now) {
    void* const taken = alignment <= alignof(std::max_align_t)
                            ? std::malloc(std::max<std::size_t>(bytes, 1))
                            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (taken == nullptr) throw std::bad_alloc();
    return taken;
  }
  const std::size_t at = (used + alignment - 1) / alignment * alignment;
  if (at + bytes > kBytes) throw std::bad_alloc();
  used = at + std::max<std::size_t>(bytes, 1);
  return memory + at;
}

void give_back(void* address) noexcept {
  if (!owns(address)) std::free(address);
}

}  // namespace

void use(bool wanted) noexcept { wanted_now = wanted; }
bool in_use() noexcept { return wanted_now; }
void clear() noexcept { used = 0; }

}  // namespace tmflow::explore::arena

namespace arena = tmflow::explore::arena;

void* operator new(std::size_t bytes) { return arena::take(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return arena::take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* address) noexcept { arena::give_back(address); }
void operator delete(void* address, std::size_t) noexcept { arena::give_back(address); }
void operator delete(void* address, std::align_val_t) noexcept { arena::give_back(address); }
void operator delete(void* address, std::size_t, std::align_val_t) noexcept { arena::give_back(address); }
