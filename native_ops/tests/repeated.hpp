// How often the tests repeat what threads do at the same time.
#pragma once

namespace tmflow {

// `times`, or a quarter of it under ThreadSanitizer, which is several times slower, and which reports a
// race between accesses that are not ordered even if they are apart in time.
constexpr int repeated(int times) noexcept {
#ifdef __SANITIZE_THREAD__
  return (times + 3) / 4;
#else
  return times;
#endif
}

}  // namespace tmflow
