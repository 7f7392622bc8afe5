// Denormals: numbers too small for full precision, with which processors compute a hundred times more slowly.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tmflow::train {

// While it lives, the thread computes with 0 in place of denormals, as TensorFlow's threads do. Otherwise the
// gradient of an image that a softmax classifies with near certainty takes several times as long as that of
// another image. On x86-64; no effect elsewhere.
class FlushedDenormals {
 public:
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;
#if defined(__x86_64__)
  FlushedDenormals() noexcept : before_(_mm_getcsr()) {
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushedDenormals() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
#else
  FlushedDenormals() noexcept {}
  ~FlushedDenormals() {}
#endif
};

}  // namespace tmflow::train
