// The small text files in which Linux describes the machine, as src/tmflow/platform/sysfiles.py reads them.
// What cannot be read is nullopt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::runner {

inline constexpr std::string_view kCpus = "sys/devices/system/cpu";

std::vector<std::string> split_lines(std::string_view text);
std::vector<std::string> split_words(std::string_view text);  // at white space
std::string stripped(std::string_view text);                  // without surrounding white space

// A whole number in decimal digits, with an optional minus sign.
std::optional<std::int64_t> whole_number(std::string_view text);

// The content of a file.
std::optional<std::string> file_bytes(const std::filesystem::path& path);

// The files under `root`: the real ones, or those recorded on another machine. Paths are relative to `root`.
class Files {
 public:
  explicit Files(std::filesystem::path root) : root_(std::move(root)) {}

  std::optional<std::string> data(const std::string& path) const { return file_bytes(root_ / path); }
  // Without surrounding white space (and the NUL of the device tree); nullopt also if the file is empty.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<std::int64_t> integer(const std::string& path) const;
  // A size or count of hardware as the kernel writes it (48K, 2M, 64); the kernel writes 0 for unknown.
  std::optional<std::int64_t> size(const std::string& path) const;
  // How many numbers a list such as 0-3,8,10-11 covers.
  std::optional<std::int64_t> count(const std::string& path) const;
  // The paths that match, sorted by name.
  std::vector<std::string> glob(const std::string& pattern) const;

 private:
  const std::filesystem::path root_;
};

}  // namespace tmflow::runner
