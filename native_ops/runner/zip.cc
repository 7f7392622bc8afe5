#include "runner/zip.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "runner/whole_file.hpp"

namespace tmflow::runner {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    table[byte] = crc;
  }
  return table;
}();

constexpr std::uint16_t kVersion = 20;                // 2.0: folders and deflate, which every reader supports
constexpr std::uint16_t kMadeBy = 3 << 8 | kVersion;  // Unix: the attributes hold a mode
constexpr std::uint16_t kUtf8 = 1 << 11;
constexpr std::uint16_t kTime = 0, kDate = 1 << 5 | 1;  // 1980-01-01, the first date of the format
constexpr std::uint32_t kMode = 0100644u << 16;

void put16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value);
  out += static_cast<char>(value >> 8);
}

void put32(std::string& out, std::uint32_t value) {
  put16(out, value & 0xffff);
  put16(out, value >> 16);
}

// The fields that the header of a member and its entry in the directory share.
void put_member(std::string& out, const Member& member, std::uint32_t crc) {
  put16(out, kVersion);
  put16(out, kUtf8);
  put16(out, 0);  // stored
  put16(out, kTime);
  put16(out, kDate);
  put32(out, crc);
  put32(out, static_cast<std::uint32_t>(member.bytes.size()));
  put32(out, static_cast<std::uint32_t>(member.bytes.size()));
  put16(out, static_cast<std::uint32_t>(member.name.size()));
  put16(out, 0);  // no extra field
}

void check_limits(const std::filesystem::path& path, const std::vector<Member>& members) {
  std::uint64_t bytes = 0;
  bool short_names = true;
  for (const Member& member : members) {
    bytes += member.bytes.size() + 2 * member.name.size() + 100;  // the headers have 76
    short_names &= member.name.size() <= 0xffff;
  }
  if (bytes <= std::numeric_limits<std::uint32_t>::max() && members.size() <= 0xffff && short_names) return;
  throw std::runtime_error(
      path.string() +
      " cannot be written: a zip has at most 4 GiB and 65,535 files, with names of at most 65,535 bytes");
}

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

void write_zip(const std::filesystem::path& path, std::vector<Member> members) {
  check_limits(path, members);
  std::ranges::sort(members, {}, &Member::name);
  WholeFile file(path);
  std::uint32_t offset = 0;
  std::string directory;
  for (const Member& member : members) {
    const std::uint32_t crc = crc32(member.bytes);
    std::string header = "PK\x03\x04";
    put_member(header, member, crc);
    header += member.name;
    file.write(header);
    file.write(member.bytes);

    directory += "PK\x01\x02";
    put16(directory, kMadeBy);
    put_member(directory, member, crc);
    put16(directory, 0);  // no comment
    put16(directory, 0);  // the first and only disk
    put16(directory, 0);  // internal attributes: nothing is known about the content
    put32(directory, kMode);
    put32(directory, offset);
    directory += member.name;
    offset += static_cast<std::uint32_t>(header.size() + member.bytes.size());
  }
  const auto size = static_cast<std::uint32_t>(directory.size());
  const auto count = static_cast<std::uint32_t>(members.size());
  std::string end = std::string("PK\x05\x06") + std::string(4, '\0');  // the first and only disk
  put16(end, count);
  put16(end, count);
  put32(end, size);
  put32(end, offset);
  put16(end, 0);  // no comment
  file.write(directory);
  file.write(end);
  file.done();
}

}  // namespace tmflow::runner
