// A small place for each living thread.
#pragma once

#include <cstddef>

namespace tmflow::adaptive {

inline constexpr std::size_t kPlaces = 64;

// The places are numbered from 0; that of a thread that has ended goes to the next one that needs one.
// Threads beyond kPlaces - 1 share the last one.
//
// Memory ordering: a thread that gets a place acquires what its last owner did before releasing it.
class ThreadPlace {
 public:
  static std::size_t own() noexcept {
    if (own_ == kNone) own_ = taken();
    return own_;
  }

  static constexpr bool is_shared(std::size_t place) noexcept { return place == kPlaces - 1; }

 private:
  static constexpr std::size_t kNone = kPlaces;

  static std::size_t taken() noexcept;

  // Accessed without a call, also in a library, because every update uses it.
  [[gnu::tls_model("initial-exec")]] inline static constinit thread_local std::size_t own_ = kNone;
};

}  // namespace tmflow::adaptive
