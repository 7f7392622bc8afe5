#include "runner/families.hpp"

#include <cstdio>
#include <stdexcept>

namespace tmflow::runner {
namespace {

constexpr std::uint64_t kMutexTaken = 30;  // the study's code of an abort that found the mutex taken

// Bits are numbered from the lowest, as in Intel's manual.
std::string_view of_rtm(std::uint64_t status) {
  const auto bit = [&](int number) { return (status >> number & 1) != 0; };
  if (bit(0)) return status >> 24 == kMutexTaken ? "lock_subscription" : "explicit";
  if (bit(4)) return "debug";
  if (bit(3)) return "capacity";
  if (bit(2)) return "conflict";
  if (bit(5)) return "nested";
  return status == 0 ? "interrupt_or_fault" : "unknown";
}

// Bits are numbered from the highest, as in the Power ISA.
std::string_view of_power(std::uint64_t texasr) {
  const auto bit = [&](int number) { return (texasr >> (63 - number) & 1) != 0; };
  if (bit(31)) {
    const std::uint64_t code = texasr >> 56;
    if (code == kMutexTaken) return "lock_subscription";
    return 0xd0 <= code && code < 0xe4 ? "interrupt_or_fault" : "explicit";  // the kernel's codes
  }
  if (bit(9)) return "nested";
  if (bit(10)) return "capacity";
  if (bit(11) || bit(12) || bit(13) || bit(14) || bit(16)) return "conflict";
  return bit(8) ? "interrupt_or_fault" : "unknown";
}

// The numbers are those of tmflow/stm/cause.hpp.
std::string_view of_stm(std::uint64_t cause) {
  if (cause == 1 || cause == 2) return "explicit";
  if (6 <= cause && cause <= 8) return "validation";
  return 3 <= cause && cause <= 9 ? "conflict" : "unknown";
}

}  // namespace

std::string_view family(std::string_view mechanism, std::uint64_t status) {
  if (mechanism == "rtm") return of_rtm(status);
  if (mechanism == "power") return of_power(status);
  if (mechanism == "stm") return of_stm(status);
  if (mechanism == "itm" || mechanism == "tle") return "unknown";  // neither reports the cause
  throw std::invalid_argument("no transactions are called '" + std::string(mechanism) + "'");
}

std::string raw_code(std::uint64_t status) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%08llx", static_cast<unsigned long long>(status));
  return text;
}

}  // namespace tmflow::runner
