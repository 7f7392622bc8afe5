#include "tmflow/format/json.hpp"

#include <charconv>
#include <cmath>

#include "tmflow/format/utf8.hpp"

namespace tmflow {
namespace {

void write_text(const std::string& text, std::string& out) {
  if (!is_utf8(text)) throw JsonError("a text is not valid UTF-8");
  out += '"';
  for (const char character : text) {
    switch (character) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (const auto byte = static_cast<unsigned char>(character); byte < 0x20) {
          constexpr char kHex[] = "0123456789abcdef";
          out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
        } else {
          out += character;
        }
    }
  }
  out += '"';
}

void write(const Json& value, std::string& out) {
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.boolean() ? "true" : "false";
  } else if (value.is_integer()) {
    out += std::to_string(value.integer());
  } else if (value.is_number()) {
    if (!std::isfinite(value.number()))
      throw JsonError("a number is not finite, and JSON has no such numbers");
    out += repr(value.number());
  } else if (value.is_string()) {
    write_text(value.text(), out);
  } else if (value.is_array()) {
    const char* between = "";
    out += '[';
    for (const Json& element : value.array()) {
      out += std::exchange(between, ",");
      write(element, out);
    }
    out += ']';
  } else {
    const char* between = "";
    out += '{';
    for (const auto& [name, field] : value.object()) {
      out += std::exchange(between, ",");
      write_text(name, out);
      out += ':';
      write(field, out);
    }
    out += '}';
  }
}

}  // namespace

Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

const Json* Json::find(std::string_view name) const {
  const Object& fields = object();
  const auto found = fields.find(std::string(name));
  return found == fields.end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* found = find(name)) return *found;
  throw JsonError("the field '" + std::string(name) + "' is missing");
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = Object();
  object();
  return std::get<Object>(value_)[std::string(name)];
}

void Json::append(Json element) {
  if (is_null()) value_ = Array();
  array();
  std::get<Array>(value_).push_back(std::move(element));
}

void Json::refuse(const char* wanted) const { throw JsonError(canonical(*this) + " is not " + wanted); }

std::string canonical(const Json& value) {
  std::string out;
  write(value, out);
  return out;
}

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific).ptr;
  const std::string shortest(buffer, end);  // -d.ddde-dd
  const std::size_t mark = shortest.find('e');
  const int exponent = std::stoi(shortest.substr(mark + 1));
  if (exponent < -4 || exponent >= 16) return shortest;

  const std::string_view mantissa = std::string_view(shortest).substr(0, mark);
  std::string out, digits;
  for (const char character : mantissa) {
    if (character == '-') out += character;
    if ('0' <= character && character <= '9') digits += character;
  }
  if (exponent < 0) return out.append("0.").append(-exponent - 1, '0').append(digits);
  const std::size_t whole = exponent + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return out.append(digits, 0, whole).append(".").append(digits, whole);
}

}  // namespace tmflow
