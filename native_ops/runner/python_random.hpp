// Python's random.Random(seed).shuffle, so that a round has the same order as in Python.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tmflow::runner {

// The Mersenne Twister (Matsumoto and Nishimura, 1998), seeded from one word by init_by_array, as in Python.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed) {
    words_[0] = 19650218;
    for (std::uint32_t i = 1; i < kWords; ++i) words_[i] = 1812433253 * folded(i - 1) + i;
    std::size_t i = 1;
    for (std::size_t n = 0; n < kWords; ++n) {
      words_[i] = (words_[i] ^ folded(i - 1) * 1664525) + seed;
      i = after(i);
    }
    for (std::size_t n = 1; n < kWords; ++n) {
      words_[i] = (words_[i] ^ folded(i - 1) * 1566083941) - static_cast<std::uint32_t>(i);
      i = after(i);
    }
    words_[0] = 0x80000000;
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      const std::size_t j = below(static_cast<std::uint32_t>(i));
      if (j != i - 1) std::swap(items[i - 1], items[j]);
    }
  }

 private:
  static constexpr std::size_t kWords = 624, kMiddle = 397;

  std::uint32_t folded(std::size_t i) const { return words_[i] ^ words_[i] >> 30; }

  // The next index. The last word is followed by the second, because it is then copied to the first.
  std::size_t after(std::size_t i) {
    if (i + 1 < kWords) return i + 1;
    words_[0] = words_[kWords - 1];
    return 1;
  }

  // Uniform in 0 to n - 1.
  std::uint32_t below(std::uint32_t n) {
    const int bits = std::bit_width(n);
    std::uint32_t drawn = 0;
    do {
      drawn = next() >> (32 - bits);
    } while (drawn >= n);
    return drawn;
  }

  std::uint32_t next() {
    if (used_ == kWords) twist();
    std::uint32_t word = words_[used_++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680;
    word ^= word << 15 & 0xefc60000;
    return word ^ word >> 18;
  }

  void twist() {
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint32_t both = (words_[i] & 0x80000000) | (words_[(i + 1) % kWords] & 0x7fffffff);
      words_[i] = words_[(i + kMiddle) % kWords] ^ both >> 1 ^ (both & 1 ? 0x9908b0df : 0);
    }
    used_ = 0;
  }

  std::array<std::uint32_t, kWords> words_{};
  std::size_t used_ = kWords;
};

}  // namespace tmflow::runner
