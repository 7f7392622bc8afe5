// A zip file with uncompressed members: the same members give the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::runner {

struct Member {
  std::string name;  // a path with /, in UTF-8
  std::string bytes;
};

// CRC-32 of ISO 3309, as in zip, PNG and Ethernet.
std::uint32_t crc32(std::string_view bytes);

// Writes the members sorted by name, each dated 1980-01-01 with mode 0644, to a file that is never visible
// half-written. Throws std::runtime_error if it cannot be written, or would exceed the limits of the plain
// format: 4 GiB and 65,535 members.
void write_zip(const std::filesystem::path& path, std::vector<Member> members);

}  // namespace tmflow::runner
