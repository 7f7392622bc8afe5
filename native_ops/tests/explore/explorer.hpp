// A small stateless model checker: runs a program of a few threads under every schedule that could make a
// difference.
//
// In the spirit of Relacy (Vyukov: atomics that give control to a scheduler, and check orders), CHESS
// (Musuvathi et al., OSDI 2008: a program is run repeatedly, with another schedule each time) and loom (the
// same for Rust). The reduction is that of Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial
// order reduction" (POPL 2014): source sets, with sleep sets. See docs/proofs.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::explore {

// The threads under test; `after` runs alone after all of them have ended.
struct Program {
  std::vector<std::function<void()>> threads;
  std::function<void()> after;
};

struct Limits {
  std::int64_t executions = 20'000'000;
  int steps = 20'000;   // of one execution; more are reported as a livelock
  bool reduces = true;  // false: every interleaving, also equivalent ones
  // How many pairs of a thread and a place may be late. At such a place the thread may load any older value
  // that C++ still allows. 0: executions are sequentially consistent.
  int late = 0;
};

struct Report {
  std::int64_t interleavings = 0;  // that ran to their end
  std::int64_t redundant = 0;      // that were abandoned when they reached an explored state
  std::int64_t steps = 0;          // of all of them
  int longest = 0;                 // steps of one
  bool finished = false;           // no limit and no failure ended it early
  std::string failure;             // the first one, with its schedule; empty: none
};

// Runs the program that `make` creates, once for each interleaving, until all were run or one fails.
Report explore(const std::function<Program()>& make, const Limits& limits = {});

// For a thread under test: reports a violation and ends the execution; never returns.
[[noreturn]] void fail(std::string_view what);
inline void require(bool holds, std::string_view what) {
  if (!holds) fail(what);
}

// Names memory in the printed schedule: "name[i]", with i in units of `stride` bytes.
void name(const void* begin, std::size_t bytes, std::size_t stride, std::string_view name);

// What a thread does in one step.
enum class Kind : std::uint8_t {
  load,     // of an atomic
  store,    //
  update,   // read and write an atomic in one step
  compare,  // the same, or only a read if the comparison fails
  read,     // of an element
  write,    //
  lock,     // take a mutex when it is free
  unlock,   // release it
  fence,    // seq_cst, if threads may be late
  wait,     // until another thread has changed what this one has read
  begin,    // of Program::after
};

struct Operation {
  Kind kind;
  std::memory_order order = std::memory_order_seq_cst;
  int place = -1;
  bool racy = false;  // of an element: the strategy's contract allows the race
  std::memory_order failed = std::memory_order_seq_cst;  // of a comparison that fails
};

// The number of the place in memory at this address; threads meet at places.
int place_at(const void* address);

// Gives control to the explorer; returns when the operation is the next step.
void take_turn(const Operation& operation);

// What the step did: whether it wrote, whether that changed the place, and the value now there or loaded.
struct Effect {
  bool wrote;
  bool changed;
  std::uint64_t bits;
  bool is_float = false;
  std::uint64_t before = 0;  // of a write: the previous value
  int age = 0;               // of a load: how many newer stores it misses
};
void done(const Effect& effect);

// The same for a load or a read of a place that now holds `newest`. Returns the loaded value, which is older
// if the thread is late there.
std::uint64_t done_loading(std::uint64_t newest, bool is_float);

// The number of the running thread; -1 outside of executions, where nothing is scheduled.
int running_thread() noexcept;

// Waits until another thread has changed something that this one has read since its last wait. Returns
// immediately if it has read nothing.
void wait();

// A C++ fence. A seq_cst fence is a step if threads may be late.
void fence(std::memory_order order);

// The value of a racy read may be discarded. A value that is kept must turn out to be ordered: `keep(to)`
// records that `to` holds what this thread has just read, and `check_kept` fails unless the write of that
// value is now ordered before this thread.
void keep(const void* to);
void check_kept(const void* to);

}  // namespace tmflow::explore
