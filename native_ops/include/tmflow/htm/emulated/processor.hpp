// An emulated processor: hardware threads with transactions that conflict, overflow and are interrupted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <random>
#include <string_view>
#include <vector>

#include "tmflow/htm/emulated/core.hpp"
#include "tmflow/htm/emulated/line_set.hpp"
#include "tmflow/htm/emulated/machine.hpp"
#include "tmflow/htm/emulated/statuses.hpp"
#include "tmflow/spin_lock.hpp"

namespace tmflow::htm::emulated {

struct Access {
  const void* address;
  std::size_t bytes;
  bool write;

  static Access read(const void* address, std::size_t bytes) { return {address, bytes, false}; }
  static Access written(const void* address, std::size_t bytes) { return {address, bytes, true}; }
};

class HardwareThread;

// What the hardware threads of a processor share. The transaction that asks for a line wins: whoever has
// written it, and for writing whoever has read it, aborts.
//
// Memory ordering: one lock guards all that is said about lines. Everything that a transaction does, its
// commit included, is one or more critical sections of that lock, so accesses, aborts and commits have one
// order, and what was written before an earlier one is seen by a later one.
class Processor {
 public:
  explicit Processor(const Machine& machine) : machine_(machine) {}
  Processor(const Processor&) = delete;

  // The one of this process for the machine of this text; made when it is first asked for, never destroyed.
  // Throws as MachineText::parse does.
  static Processor& of(std::string_view text);

  // The hardware thread that the calling thread runs on, for as long as it lives. Only of a processor that
  // outlives the calling thread.
  HardwareThread& here();

  const Machine& machine() const { return machine_; }

 private:
  friend class HardwareThread;

  const Machine machine_;
  SpinLock lock_;
  // The rest is guarded by the lock.
  std::vector<HardwareThread*> threads_;  // by number; null where one has gone
  std::deque<Core> cores_;
  std::uint64_t threads_ever_ = 0;
  int live_ = 0;  // transactions
};

// A hardware thread and the transaction that it may be in. Used by one thread, its own; the transactions of
// others may abort its transaction at any time, which it learns at its next access or at its commit. Threads
// take the lowest number that is free, and fill core after core.
class HardwareThread {
 public:
  explicit HardwareThread(Processor& processor);
  ~HardwareThread();
  HardwareThread(const HardwareThread&) = delete;

  void begin();

  // Touches the lines of `accesses` in the transaction, in their order, and runs `inside` if it is still
  // there; nobody's access, abort or commit comes between. False: the transaction has aborted.
  template <class Inside>
  bool access(std::initializer_list<Access> accesses, const Inside& inside) {
    const std::lock_guard held(processor_.lock_);
    if (!live_) return false;
    for (const Access& access : accesses) {
      if (!touch_all(access)) return false;
    }
    inside();
    return true;
  }
  bool access(std::initializer_list<Access> accesses) {
    return access(accesses, [] {});
  }

  // The transaction ends itself: the mutex is taken.
  void abort();

  // Ends the transaction. If nothing has aborted it, runs `publish`, which makes its writes; else says why.
  //
  // The two are one critical section: between the look at the transaction and its last write nobody can abort
  // it, and whoever touches one of its lines later finds all of its writes done.
  template <class Publish>
  bool commit(Ended& why, const Publish& publish) {
    const std::lock_guard held(processor_.lock_);
    why = ended_;
    if (!live_) return false;
    publish();
    end(true);
    return true;
  }

  // Touches lines outside of transactions.
  void notice(std::initializer_list<Access> accesses);

 private:
  // All of the below need the lock.
  bool touch_all(const Access& access);
  void touch(Line line, bool write);
  void notice_line(Line line, bool write);
  void conflict(Line line, bool write, Cause cause);
  void fail(Cause cause);
  void end(bool committed);

  Processor& processor_;
  std::mt19937_64 random_;
  // The rest is guarded by the processor's lock.
  int number_ = kNobody;
  Core* core_ = nullptr;
  bool live_ = false;  // in a transaction that has not aborted
  Ended ended_{};      // how the last one that aborted did
  LineSet lines_;
};

}  // namespace tmflow::htm::emulated
