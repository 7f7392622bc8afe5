// A unit of work for a scheduler.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

namespace tmflow::runtime {

// A function with the few bytes that it captures. It is copied as bytes and never allocates, unlike
// std::function, which allocates for more than two pointers.
class Task {
 public:
  template <class F>
    requires(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>)
  explicit Task(const F& function) : call_([](void* data) { (*static_cast<F*>(data))(); }) {
    static_assert(sizeof(F) <= kBytes && alignof(F) <= alignof(std::max_align_t));
    std::memcpy(data_, &function, sizeof(F));
  }

  void operator()() { call_(data_); }

 private:
  static constexpr std::size_t kBytes = 48;  // a step, a node of a loop (four words), and the time

  void (*call_)(void*);
  alignas(std::max_align_t) std::byte data_[kBytes];
};

// TensorFlow's threads, as they are given to an executor.
using Runner = std::function<void(std::function<void()>)>;

}  // namespace tmflow::runtime
