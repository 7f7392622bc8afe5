#include "runner/sysfiles.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "tmflow/format/utf8.hpp"

namespace tmflow::runner {
namespace {

constexpr std::string_view kWhite = " \t\n\r\f\v";

std::string_view trimmed(std::string_view text, std::string_view around) {
  const std::size_t first = text.find_first_not_of(around);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(around) - first + 1);
}

// How many numbers "8" or "8-11" covers.
std::optional<std::int64_t> range_size(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == text.npos ? first : whole_number(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < 0) return std::nullopt;
  return *last - *first + 1;
}

}  // namespace

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!(text = trimmed(text, kWhite)).empty()) {
    const std::size_t end = std::min(text.find_first_of(kWhite), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::string stripped(std::string_view text) { return std::string(trimmed(text, kWhite)); }

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::string> file_bytes(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string bytes;
  char buffer[1 << 16];
  ssize_t got;
  while ((got = read(descriptor, buffer, sizeof buffer)) > 0) bytes.append(buffer, got);
  close(descriptor);
  if (got < 0) return std::nullopt;
  return bytes;
}

std::optional<std::string> Files::text(const std::string& path) const {
  const auto bytes = data(path);
  if (!bytes) return std::nullopt;
  const std::string decoded = utf8_replaced(*bytes);
  const std::string_view found = trimmed(decoded, std::string_view(" \t\n\0", 4));
  if (found.empty()) return std::nullopt;
  return std::string(found);
}

std::optional<std::int64_t> Files::integer(const std::string& path) const {
  return whole_number(text(path).value_or(""));
}

std::optional<std::int64_t> Files::size(const std::string& path) const {
  std::string found = text(path).value_or("");
  int shift = 0;
  if (const std::size_t unit = std::string_view("KMG").find(found.empty() ? ' ' : found.back()); unit < 3) {
    shift = 10 * (static_cast<int>(unit) + 1);
    found.pop_back();
  }
  const auto number = whole_number(found);
  if (!number || *number <= 0) return std::nullopt;
  return *number << shift;
}

std::optional<std::int64_t> Files::count(const std::string& path) const {
  std::string_view left;
  const auto whole = text(path);
  if (!whole) return std::nullopt;
  left = *whole;
  for (std::int64_t sum = 0;;) {
    const std::size_t comma = left.find(',');
    const auto numbers = range_size(left.substr(0, comma));
    if (!numbers) return std::nullopt;
    sum += *numbers;
    if (comma == left.npos) return sum;
    left.remove_prefix(comma + 1);
  }
}

std::vector<std::string> Files::glob(const std::string& pattern) const {
  std::vector<std::string> found{""};
  for (const std::filesystem::path& part : std::filesystem::path(pattern)) {
    std::vector<std::string> further;
    for (const std::string& folder : found) {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(root_ / folder, error)) {
        const std::string name = entry.path().filename();
        if (fnmatch(part.c_str(), name.c_str(), 0) == 0) {
          further.push_back(folder.empty() ? name : folder + "/" + name);
        }
      }
    }
    found = std::move(further);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace tmflow::runner
