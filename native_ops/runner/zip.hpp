// A zip file whose members are stored as they are: nothing to decompress, and the same members give the same
// bytes.
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

// CRC-32 of ISO 3309, as zip, PNG and Ethernet have it.
std::uint32_t crc32(std::string_view bytes);

// Writes the members in the order of their names, each of 1980-01-01 and mode 0644, to a file that is never
// seen half-written. Throws std::runtime_error where it cannot be written, or where it would pass the 4 GiB
// and 65,535 members of the plain format.
void write_zip(const std::filesystem::path& path, std::vector<Member> members);

}  // namespace tmflow::runner
