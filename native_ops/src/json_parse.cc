// The JSON parser (RFC 8259), without extensions.
#include <charconv>
#include <cmath>

#include "tmflow/format/json.hpp"
#include "tmflow/format/utf8.hpp"

namespace tmflow {
namespace {

constexpr int kDeepest = 100;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    Json found = value();
    space();
    if (at_ != text_.size()) refuse("there is text after the value");
    return found;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw JsonError("not JSON at byte " + std::to_string(at_) + ": " + why);
  }

  char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char wanted) noexcept {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void need(char wanted) {
    if (!take(wanted)) refuse(std::string("'") + wanted + "' is missing");
  }

  void space() noexcept {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  Json value() {
    space();
    switch (peek()) {
      case '{':
        return nested([this] { return object(); });
      case '[':
        return nested([this] { return array(); });
      case '"':
        return string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", nullptr);
      default:
        return number();
    }
  }

  template <class Read>
  Json nested(const Read& read) {
    if (++depth_ > kDeepest) refuse("more than " + std::to_string(kDeepest) + " levels");
    Json found = read();
    --depth_;
    return found;
  }

  Json word(std::string_view spelt, Json meaning) {
    if (text_.substr(at_, spelt.size()) != spelt) refuse("no value here");
    at_ += spelt.size();
    return meaning;
  }

  Json object() {
    Json::Object fields;
    need('{');
    space();
    if (take('}')) return fields;
    do {
      space();
      std::string name = string();
      if (fields.contains(name)) refuse("the name '" + name + "' occurs twice");
      space();
      need(':');
      fields.emplace(std::move(name), value());
      space();
    } while (take(','));
    need('}');
    return fields;
  }

  Json array() {
    Json::Array elements;
    need('[');
    space();
    if (take(']')) return elements;
    do {
      elements.push_back(value());
      space();
    } while (take(','));
    need(']');
    return elements;
  }

  std::string string() {
    need('"');
    std::string text;
    while (!take('"')) {
      if (at_ == text_.size()) refuse("a string is not terminated");
      if (take('\\')) {
        escape(text);
        continue;
      }
      if (static_cast<unsigned char>(peek()) < 0x20) refuse("a control character in a string is not escaped");
      const Utf8Step step = utf8_step(text_.substr(at_));
      if (!step.valid) refuse("invalid UTF-8");
      text += text_.substr(at_, step.bytes);
      at_ += step.bytes;
    }
    return text;
  }

  void escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t which = kNames.find(peek()); at_ < text_.size() && which != kNames.npos) {
      text += kMeanings[which];
      ++at_;
      return;
    }
    if (!take('u')) refuse("an unknown escape sequence");
    char32_t code_point = hex4();
    if (0xd800 <= code_point && code_point < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const char32_t low = hex4();
      if (low < 0xdc00 || low > 0xdfff) refuse("an unpaired surrogate");
      code_point = 0x10000 + ((code_point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (0xd800 <= code_point && code_point <= 0xdfff) refuse("an unpaired surrogate");
    append_utf8(text, code_point);
  }

  char32_t hex4() {
    const std::string_view digits = text_.substr(at_, 4);
    std::uint32_t found = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found, 16);
    if (error != std::errc() || end != digits.data() + 4) refuse("\\u needs four hexadecimal digits");
    at_ += 4;
    return found;
  }

  std::size_t digits() {
    const std::size_t first = at_;
    while ('0' <= peek() && peek() <= '9') ++at_;
    if (at_ == first) refuse("no value here");
    return at_ - first;
  }

  Json number() {
    const std::size_t first = at_;
    take('-');
    const bool zero = peek() == '0';
    if (digits() > 1 && zero) refuse("a number has a leading 0");
    bool whole = true;
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      digits();
    }
    return whole ? converted<std::int64_t>(first, "an integer does not fit in 64 bits with sign")
                 : converted<double>(first, "a number is too large, or too small, for a double");
  }

  template <class T>
  Json converted(std::size_t first, const char* too_large) const {
    T found{};
    const auto error = std::from_chars(text_.data() + first, text_.data() + at_, found).ec;
    if (error != std::errc()) refuse(too_large);
    return found;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Json parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace tmflow
