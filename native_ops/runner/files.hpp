// What files hold, and what commands say.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::runner {

// All of a file. Throws BadInput where it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes the text after the first `keep` bytes of a file, onto the disk; what it held after those goes.
// Throws BadInput where that cannot be; then the file holds at least those.
void append_at(const std::filesystem::path& path, std::size_t keep, std::string_view text);

// What a command writes on its standard output. Throws BadInput where it cannot run or fails.
std::string output_of(const std::vector<std::string>& command);

}  // namespace tmflow::runner
