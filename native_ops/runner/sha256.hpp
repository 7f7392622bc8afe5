// SHA-256 (FIPS 180-4), for the identities of platforms, specs and bundles.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tmflow::runner {

// The hash of bytes that arrive piece by piece.
class Sha256 {
 public:
  void update(std::string_view bytes);
  std::string hex();  // of all bytes so far; call it once, at the end

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> waiting_{};  // the bytes of an incomplete block
  std::uint64_t bytes_ = 0;
};

// Hex SHA-256 of the bytes.
std::string sha256_hex(std::string_view bytes);

}  // namespace tmflow::runner
