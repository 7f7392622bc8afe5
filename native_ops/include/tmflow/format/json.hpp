// JSON: a tree of values, the project's canonical serialisation, and a strict parser.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tmflow {

// Invalid JSON, or a value of another type than requested, or without the requested field.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A JSON value. Integers are distinct from other numbers, as in Python; a text is UTF-8.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json>;  // by the bytes of UTF-8, as by code points

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) : value_(checked(value)) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}

  // Not inline: if GCC 12 inlines them, it warns of members of a variant that never existed.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  bool is_null() const noexcept { return is<std::monostate>(); }
  bool is_bool() const noexcept { return is<bool>(); }
  bool is_integer() const noexcept { return is<std::int64_t>(); }
  bool is_number() const noexcept { return is_integer() || is<double>(); }
  bool is_string() const noexcept { return is<std::string>(); }
  bool is_array() const noexcept { return is<Array>(); }
  bool is_object() const noexcept { return is<Object>(); }

  // Each throws JsonError if the value is of another type.
  bool boolean() const { return get<bool>("true or false"); }
  std::int64_t integer() const { return get<std::int64_t>("a whole number"); }
  double number() const { return is_integer() ? static_cast<double>(integer()) : get<double>("a number"); }
  const std::string& text() const { return get<std::string>("a string"); }
  const Array& array() const { return get<Array>("an array"); }
  const Object& object() const { return get<Object>("an object"); }

  // The field of that name of an object; nullptr if there is none.
  const Json* find(std::string_view name) const;
  // The same; throws JsonError naming the field if there is none.
  const Json& at(std::string_view name) const;
  // The field of that name, created as null if there is none; null becomes an empty object.
  Json& operator[](std::string_view name);
  // Appends an element; null becomes an empty array.
  void append(Json element);

  bool operator==(const Json&) const = default;

 private:
  template <class T>
  bool is() const noexcept {
    return std::holds_alternative<T>(value_);
  }

  template <class T>
  const T& get(const char* wanted) const {
    if (const T* found = std::get_if<T>(&value_)) return *found;
    refuse(wanted);
  }

  template <class T>
  static std::int64_t checked(T value) {
    if (!std::in_range<std::int64_t>(value)) throw JsonError("an integer does not fit in 64 bits with sign");
    return static_cast<std::int64_t>(value);
  }

  [[noreturn]] void refuse(const char* wanted) const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// The canonical serialisation of a value, byte for byte as canonical_json of tmflow.base, from which all
// hashes of this project are computed. Throws JsonError for values that JSON does not have: NaN, infinity,
// text that is not UTF-8.
std::string canonical(const Json& value);

// A number as in Python's repr: the fewest digits that are read back as the same double.
std::string repr(double value);

// The value of a text that is exactly one JSON value. Throws JsonError with the byte position, also for what
// would be ambiguous or unbounded: a duplicate name in an object, an integer beyond 64 bits, more than 100
// levels.
Json parse(std::string_view text);

}  // namespace tmflow
