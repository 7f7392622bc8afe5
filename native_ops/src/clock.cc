#include "tmflow/format/clock.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>

namespace tmflow {

std::string utc_now() {
  using namespace std::chrono;
  const auto since_1970 = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  const std::time_t whole = since_1970 / 1000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(since_1970 % 1000));
  return text;
}

std::string new_uid() {
  std::random_device device;  // the system's random numbers
  const unsigned a = device(), b = device(), c = device(), d = device();
  char text[40];
  std::snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%04x%08x", a, b >> 16, b & 0xfff,
                0x8000 | (c >> 16 & 0x3fff), c & 0xffff, d);
  return text;
}

}  // namespace tmflow
