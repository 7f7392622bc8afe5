// The contents of files and the output of commands.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::runner {

// The whole content of a file. Throws BadInput if it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Keeps the first `keep` bytes of a file, replaces the rest by the text, and syncs the file to disk. Throws
// BadInput if that fails; the file then still holds at least the kept bytes.
void append_at(const std::filesystem::path& path, std::size_t keep, std::string_view text);

// The standard output of a command. Throws BadInput if it cannot run or fails.
std::string output_of(const std::vector<std::string>& command);

}  // namespace tmflow::runner
