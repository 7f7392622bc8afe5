// An emulated processor: hardware threads with transactions that conflict, overflow and are interrupted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tmflow/htm/emulated/core.hpp"
#include "tmflow/htm/emulated/line_set.hpp"
#include "tmflow/htm/emulated/machine.hpp"
#include "tmflow/htm/emulated/statuses.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::htm::emulated {

struct Access {
  const void* address;
  std::size_t bytes;
  bool write;

  static Access read(const void* address, std::size_t bytes) { return {address, bytes, false}; }
  static Access written(const void* address, std::size_t bytes) { return {address, bytes, true}; }
};

// After this many lines of a long access outside of transactions, other threads may run.
inline constexpr std::size_t kLinesAtOnce = 64;

struct Lines {
  Line first, end;
};

inline Lines lines_of(const Access& access, std::size_t line_bytes) {
  if (access.bytes == 0) return {0, 0};
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  return {address / line_bytes, (address + access.bytes - 1) / line_bytes + 1};
}

template <class Lock>
class BasicHardwareThread;

// The shared state of the hardware threads of a processor. The transaction that requests a line wins: another
// transaction that has written it aborts, and, if the request is for writing, also one that has read it.
//
// Memory ordering: one lock guards all operations on lines. Everything that a transaction does, including its
// commit, is one or more critical sections of that lock. So accesses, aborts and commits have one order, and
// a later one sees what was written before an earlier one. (Tests that control the schedule use another
// `Lock`.)
template <class Lock>
class BasicProcessor {
 public:
  using Thread = BasicHardwareThread<Lock>;

  explicit BasicProcessor(const Machine& machine) : machine_(machine) {}
  BasicProcessor(const BasicProcessor&) = delete;

  // The processor of this process for the machine of this text; created at the first request, never
  // destroyed. Throws like MachineText::parse.
  static BasicProcessor& of(std::string_view text);

  // The hardware thread of the calling thread, for as long as that lives. Only for a processor that outlives
  // the calling thread.
  Thread& here();

  const Machine& machine() const { return machine_; }

 private:
  friend Thread;

  const Machine machine_;
  Lock lock_;
  // The rest is guarded by the lock.
  std::vector<Thread*> threads_;  // by number; null if it has ended
  std::deque<Core> cores_;
  std::uint64_t threads_ever_ = 0;
  int live_ = 0;  // transactions
};

// A hardware thread and its transaction, if it is in one. Only its own thread uses it. Transactions of others
// may abort its transaction at any time, which it learns at its next access or at its commit. Threads take
// the lowest free number, and fill core after core.
template <class Lock>
class BasicHardwareThread {
 public:
  using Processor = BasicProcessor<Lock>;

  explicit BasicHardwareThread(Processor& processor);
  ~BasicHardwareThread();
  BasicHardwareThread(const BasicHardwareThread&) = delete;

  // Begins a transaction, which touches these lines first. False: they have aborted it.
  bool begin(std::initializer_list<Access> first = {});

  // Touches the lines of `accesses` in the transaction, in their order, and runs `inside` if it has not
  // aborted; no access, abort or commit of another thread comes between. False: the transaction has aborted.
  template <class Inside>
  bool access(std::initializer_list<Access> accesses, const Inside& inside) {
    const std::lock_guard held(processor_.lock_);
    if (!live_ || !touch_all(accesses)) return false;
    inside();
    return true;
  }
  bool access(std::initializer_list<Access> accesses) {
    return access(accesses, [] {});
  }

  // The transaction aborts itself: the mutex is locked.
  void abort();

  // Ends the transaction. If it has not been aborted, runs `publish`, which makes its writes; else returns
  // the reason.
  //
  // The check and the writes are one critical section: no thread can abort the transaction between them, and
  // a thread that touches one of its lines later finds all of its writes.
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
  // All functions below require the lock.
  bool touch_all(std::initializer_list<Access> accesses);
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
  Ended ended_{};      // how the last aborted one ended
  LineSet lines_;
};

template <class Lock>
BasicProcessor<Lock>& BasicProcessor<Lock>::of(std::string_view text) {
  static std::mutex making;
  static auto& made = *new std::map<std::string, std::unique_ptr<BasicProcessor>, std::less<>>;
  const std::lock_guard held(making);
  const auto found = made.find(text);
  if (found != made.end()) return *found->second;
  const Machine machine = MachineText::parse(text);
  return *made.emplace(text, std::make_unique<BasicProcessor>(machine)).first->second;
}

template <class Lock>
BasicHardwareThread<Lock>& BasicProcessor<Lock>::here() {
  thread_local std::map<BasicProcessor*, std::unique_ptr<Thread>> own;
  std::unique_ptr<Thread>& thread = own[this];
  if (thread == nullptr) thread = std::make_unique<Thread>(*this);
  return *thread;
}

template <class Lock>
BasicHardwareThread<Lock>::BasicHardwareThread(Processor& processor) : processor_(processor) {
  const std::lock_guard held(processor_.lock_);
  random_.seed(++processor_.threads_ever_);
  auto& threads = processor_.threads_;
  auto at = std::ranges::find(threads, nullptr);
  if (at == threads.end()) at = threads.insert(at, nullptr);
  number_ = static_cast<int>(at - threads.begin());
  const auto core = static_cast<std::size_t>(number_) / processor_.machine_.siblings;
  while (processor_.cores_.size() <= core) processor_.cores_.emplace_back(processor_.machine_);
  core_ = &processor_.cores_[core];
  *at = this;  // from here on nothing throws
}

template <class Lock>
BasicHardwareThread<Lock>::~BasicHardwareThread() {
  const std::lock_guard held(processor_.lock_);
  if (live_) end(false);
  processor_.threads_[static_cast<std::size_t>(number_)] = nullptr;
}

template <class Lock>
bool BasicHardwareThread<Lock>::begin(std::initializer_list<Access> first) {
  const std::lock_guard held(processor_.lock_);
  if (live_) end(false);  // an exception left the last transaction
  live_ = true;
  ++processor_.live_;
  return touch_all(first);
}

template <class Lock>
void BasicHardwareThread<Lock>::abort() {
  const std::lock_guard held(processor_.lock_);
  if (live_) fail(Cause::mutex_taken);
}

template <class Lock>
void BasicHardwareThread<Lock>::notice(std::initializer_list<Access> accesses) {
  for (const Access& access : accesses) {
    auto [line, end] = lines_of(access, processor_.machine_.line_bytes);
    while (line < end) {
      const std::lock_guard held(processor_.lock_);
      const Line pause = std::min(end, line + kLinesAtOnce);
      // Without transactions there is nothing to abort, and the content of the caches does not matter.
      if (processor_.live_ == 0) line = pause;
      for (; line < pause; ++line) notice_line(line, access.write);
    }
  }
}

template <class Lock>
bool BasicHardwareThread<Lock>::touch_all(std::initializer_list<Access> accesses) {
  for (const Access& access : accesses) {
    auto [line, end] = lines_of(access, processor_.machine_.line_bytes);
    for (; line < end && live_; ++line) touch(line, access.write);
  }
  return live_;
}

template <class Lock>
void BasicHardwareThread<Lock>::touch(Line line, bool write) {
  const bool is_new = !lines_.has(line);
  const double rate = processor_.machine_.asynchronous;
  if (is_new && rate > 0 && std::bernoulli_distribution(rate)(random_)) return fail(Cause::asynchronous);
  conflict(line, write, Cause::transaction);
  lines_.add(line, write);
  const int loser = core_->touch(line, number_, write, is_new);
  if (loser != kNobody) processor_.threads_[static_cast<std::size_t>(loser)]->fail(Cause::capacity);
}

template <class Lock>
void BasicHardwareThread<Lock>::notice_line(Line line, bool write) {
  conflict(line, write, Cause::other_access);
  const int loser = core_->touch(line, kNobody, write, false);
  if (loser != kNobody) processor_.threads_[static_cast<std::size_t>(loser)]->fail(Cause::capacity);
}

template <class Lock>
void BasicHardwareThread<Lock>::conflict(Line line, bool write, Cause cause) {
  for (BasicHardwareThread* const other : processor_.threads_) {
    if (other == nullptr || other == this || !other->live_) continue;
    if (write ? other->lines_.has(line) : other->lines_.has_written(line)) other->fail(cause);
  }
}

template <class Lock>
void BasicHardwareThread<Lock>::fail(Cause cause) {
  ended_ = ended(processor_.machine_.dialect, cause);
  end(false);
}

template <class Lock>
void BasicHardwareThread<Lock>::end(bool committed) {
  live_ = false;
  --processor_.live_;
  core_->release(lines_, committed);
  lines_.clear();
}

using Processor = BasicProcessor<SpinLock>;
using HardwareThread = BasicHardwareThread<SpinLock>;
extern template class BasicProcessor<SpinLock>;
extern template class BasicHardwareThread<SpinLock>;

}  // namespace tmflow::htm::emulated
