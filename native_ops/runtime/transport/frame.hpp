// The frames of a connection: a head of fixed size, then a text, a header and a body of the sizes in it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "transport.hpp"

namespace tmflow::runtime::tcp {

enum class Kind : std::uint8_t { kHello = 1, kRequest, kAnswer, kCancel };

inline constexpr std::uint32_t kMagic = 0x31666d74;  // "tmf1"

// It is sent as it lies in memory.
struct Head {
  std::uint32_t magic = kMagic;
  Kind kind{};
  std::uint8_t method = 0;  // of a request
  std::uint16_t unused = 0;
  std::int32_t code = 0;     // of an answer's outcome
  std::uint32_t text = 0;    // bytes of the outcome's sentence; in a hello, of the greeting
  std::uint64_t call = 0;    // the number that the caller has given to the call
  std::uint64_t header = 0;  // bytes; in a hello, of the secret
  std::uint64_t body = 0;    // bytes
};
static_assert(std::endian::native == std::endian::little, "the numbers of a head are little-endian");
static_assert(sizeof(Head) == 40 && std::has_unique_object_representations_v<Head>);

// What one end accepts from the other.
inline constexpr std::size_t kMostHello = 4096 - sizeof(Head);  // text and header of a hello
inline constexpr std::size_t kMostText = 64 << 10;
inline constexpr std::uint64_t kMostHeader = std::uint64_t{2} << 30;

// Whether a head that has arrived has this kind and is one that `frame` could have made.
bool is_valid(const Head& head, Kind kind);

// A frame to be sent. Its body stays where it is.
struct Frame {
  Head head;
  std::string text;
  Message message;
  std::size_t sent = 0;  // bytes

  std::size_t size() const { return sizeof head + text.size() + message.header.size() + message.body.size(); }
};

// The frame of this head, with the sizes of what follows it. A text that is too long is cut.
Frame frame(Head head, std::string text = {}, Message message = {});

}  // namespace tmflow::runtime::tcp
