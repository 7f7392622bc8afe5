#include "runner/bundle_names.hpp"

#include <algorithm>
#include <vector>

#include "runner/sysfiles.hpp"

namespace tmflow::runner {
namespace {

constexpr std::size_t kLongest = 200;

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || ('a' <= c && c <= 'f'); }
bool is_letter_or_digit(char c) { return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }

bool is_word(std::string_view part) {
  const auto in_word = [](char c) { return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-'; };
  return !part.empty() && part[0] != '.' && part[0] != '-' && std::ranges::all_of(part, in_word);
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t slash; (slash = name.find('/')) != name.npos; name.remove_prefix(slash + 1)) {
    parts.push_back(name.substr(0, slash));
  }
  parts.push_back(name);
  return parts;
}

// round-001.jsonl, round-001.0a1b2c3d.jsonl
bool is_round(std::string_view file) {
  constexpr std::string_view kBegin = "round-", kEnd = ".jsonl";
  if (!file.starts_with(kBegin) || !file.ends_with(kEnd)) return false;
  file = file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size());
  const std::size_t point = file.find('.');
  const std::string_view number = file.substr(0, point);
  const bool numbered = 3 <= number.size() && number.size() <= 6 && std::ranges::all_of(number, is_digit);
  if (point == file.npos) return numbered;
  const std::string_view aside = file.substr(point + 1);
  return numbered && aside.size() == 8 && std::ranges::all_of(aside, is_hex);
}

}  // namespace

bool is_run_member(std::string_view name) {
  const auto parts = parts_of(name);
  return name.size() <= kLongest && parts.size() == 4 && parts[0] == "runs" && is_word(parts[1]) &&
         parts[2].size() == 12 && std::ranges::all_of(parts[2], is_hex) && is_round(parts[3]);
}

bool is_log_member(std::string_view name) {
  const auto parts = parts_of(name);
  return name.size() <= kLongest && parts.size() >= 2 && parts[0] == "logs" &&
         std::ranges::all_of(parts, is_word);
}

std::string bundle_file_name(std::string_view processor, std::int64_t threads, std::string_view identity) {
  std::string plain(processor.substr(0, processor.find('@')));
  for (char& c : plain) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view mark : {"(r)", "(tm)"}) {
    for (std::size_t at; (at = plain.find(mark)) != plain.npos;) plain.replace(at, mark.size(), " ");
  }
  for (char& c : plain) c = is_letter_or_digit(c) ? c : ' ';
  std::string name;
  for (const std::string& word : split_words(plain)) {
    if (word != "cpu") name += word + "-";
  }
  if (name.empty()) name = "unknown-";
  if (threads != 0) name += std::to_string(threads) + "t-";
  return name.append(identity.substr(0, 12)).append(".zip");
}

}  // namespace tmflow::runner
