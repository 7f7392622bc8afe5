// Numbers too small for full precision, which processors compute with a hundred times slower.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tmflow::train {

// As long as it lives, the thread computes with 0 in place of them, as TensorFlow's threads do: else the
// gradient of an image that a softmax is sure of takes several times as long as another one. On x86-64;
// elsewhere nothing changes.
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
