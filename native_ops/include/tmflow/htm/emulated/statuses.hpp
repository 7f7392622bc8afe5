// Why an emulated transaction aborts, in the statuses of the emulated machine.
#pragma once

#include <cstdint>

#include "tmflow/htm/elision.hpp"
#include "tmflow/htm/emulated/machine.hpp"

namespace tmflow::htm::emulated {

enum class Cause {
  transaction,   // another transaction requested one of its lines
  other_access,  // an access outside of transactions requested one
  capacity,      // its lines do not fit
  mutex_taken,   // it aborted itself, with code 30: the mutex was locked
  asynchronous,  // no cause in its accesses
};

// EAX after xbegin (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 16). A
// conflict has the bit that advises a retry; an interrupt sets no bit.
constexpr Ended rtm_status(Cause cause) {
  constexpr std::uint32_t explicit_abort = 1, retry = 2, conflict = 4, capacity = 8;
  switch (cause) {
    case Cause::transaction:
    case Cause::other_access:
      return {.status = conflict | retry, .hopeless = false};
    case Cause::capacity:
      return {.status = capacity, .hopeless = true};
    case Cause::mutex_taken:
      return {.status = 30u << 24 | explicit_abort, .hopeless = false};
    case Cause::asynchronous:
      break;
  }
  return {.status = 0, .hopeless = false};
}

// TEXASR (Power ISA 2.07, book II, chapter 5), its bits numbered from the highest: 0 to 7 are the failure
// code, of which 7 marks it as persistent. Every failure here is in user mode (35), is complete (36), and at
// level 1 of nesting (52 to 63). An interrupt does not end a
// transaction, but a context switch does: the kernel reclaims it (31) with its code 0xde, TM_CAUSE_RESCHED.
constexpr Ended power_status(Cause cause) {
  constexpr auto bit = [](int number) { return std::uint64_t{1} << (63 - number); };
  constexpr auto code = [](std::uint64_t value) { return value << 56; };
  constexpr std::uint64_t always = bit(35) | bit(36) | 1;
  switch (cause) {
    case Cause::transaction:
      return {.status = always | bit(13), .hopeless = false};
    case Cause::other_access:
      return {.status = always | bit(12), .hopeless = false};
    case Cause::capacity:
      return {.status = always | bit(7) | bit(10), .hopeless = true};
    case Cause::mutex_taken:
      return {.status = always | code(30) | bit(31), .hopeless = false};
    case Cause::asynchronous:
      break;
  }
  return {.status = always | code(0xde) | bit(31), .hopeless = false};
}

constexpr Ended ended(Dialect dialect, Cause cause) {
  return dialect == Dialect::rtm ? rtm_status(cause) : power_status(cause);
}

}  // namespace tmflow::htm::emulated
