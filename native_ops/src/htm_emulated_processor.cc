// The emulated processor.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "tmflow/htm/emulated/processor.hpp"

namespace tmflow::htm::emulated {
namespace {

// After so many lines of a long access outside of transactions, others get their turn.
constexpr std::size_t kLinesAtOnce = 64;

struct Lines {
  Line first, end;
};

Lines lines_of(const Access& access, std::size_t line_bytes) {
  if (access.bytes == 0) return {0, 0};
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  return {address / line_bytes, (address + access.bytes - 1) / line_bytes + 1};
}

}  // namespace

Processor& Processor::of(std::string_view text) {
  static std::mutex making;
  static auto& made = *new std::map<std::string, std::unique_ptr<Processor>, std::less<>>;
  const std::lock_guard held(making);
  const auto found = made.find(text);
  if (found != made.end()) return *found->second;
  const Machine machine = MachineText::parse(text);
  return *made.emplace(text, std::make_unique<Processor>(machine)).first->second;
}

HardwareThread& Processor::here() {
  thread_local std::map<Processor*, std::unique_ptr<HardwareThread>> own;
  std::unique_ptr<HardwareThread>& thread = own[this];
  if (thread == nullptr) thread = std::make_unique<HardwareThread>(*this);
  return *thread;
}

HardwareThread::HardwareThread(Processor& processor) : processor_(processor) {
  const std::lock_guard held(processor_.lock_);
  random_.seed(++processor_.threads_ever_);
  auto& threads = processor_.threads_;
  auto at = std::ranges::find(threads, nullptr);
  if (at == threads.end()) at = threads.insert(at, nullptr);
  number_ = static_cast<int>(at - threads.begin());
  const auto core = static_cast<std::size_t>(number_) / processor_.machine_.siblings;
  while (processor_.cores_.size() <= core) processor_.cores_.emplace_back(processor_.machine_);
  core_ = &processor_.cores_[core];
  *at = this;  // now that nothing can be thrown
}

HardwareThread::~HardwareThread() {
  const std::lock_guard held(processor_.lock_);
  if (live_) end(false);
  processor_.threads_[static_cast<std::size_t>(number_)] = nullptr;
}

void HardwareThread::begin() {
  const std::lock_guard held(processor_.lock_);
  if (live_) end(false);  // an exception left the last one
  live_ = true;
  ++processor_.live_;
}

void HardwareThread::abort() {
  const std::lock_guard held(processor_.lock_);
  if (live_) fail(Cause::mutex_taken);
}

void HardwareThread::notice(std::initializer_list<Access> accesses) {
  for (const Access& access : accesses) {
    auto [line, end] = lines_of(access, processor_.machine_.line_bytes);
    while (line < end) {
      const std::lock_guard held(processor_.lock_);
      const Line pause = std::min(end, line + kLinesAtOnce);
      // Without a transaction there is nobody to abort, and what is in the caches does not matter.
      if (processor_.live_ == 0) line = pause;
      for (; line < pause; ++line) notice_line(line, access.write);
    }
  }
}

bool HardwareThread::touch_all(const Access& access) {
  auto [line, end] = lines_of(access, processor_.machine_.line_bytes);
  for (; line < end && live_; ++line) touch(line, access.write);
  return live_;
}

void HardwareThread::touch(Line line, bool write) {
  const bool is_new = !lines_.has(line);
  const double rate = processor_.machine_.asynchronous;
  if (is_new && rate > 0 && std::bernoulli_distribution(rate)(random_)) return fail(Cause::asynchronous);
  conflict(line, write, Cause::transaction);
  lines_.add(line, write);
  const int loser = core_->touch(line, number_, write, is_new);
  if (loser != kNobody) processor_.threads_[static_cast<std::size_t>(loser)]->fail(Cause::capacity);
}

void HardwareThread::notice_line(Line line, bool write) {
  conflict(line, write, Cause::other_access);
  const int loser = core_->touch(line, kNobody, write, false);
  if (loser != kNobody) processor_.threads_[static_cast<std::size_t>(loser)]->fail(Cause::capacity);
}

void HardwareThread::conflict(Line line, bool write, Cause cause) {
  for (HardwareThread* const other : processor_.threads_) {
    if (other == nullptr || other == this || !other->live_) continue;
    if (write ? other->lines_.has(line) : other->lines_.has_written(line)) other->fail(cause);
  }
}

void HardwareThread::fail(Cause cause) {
  ended_ = ended(processor_.machine_.dialect, cause);
  end(false);
}

void HardwareThread::end(bool committed) {
  live_ = false;
  --processor_.live_;
  core_->release(lines_, committed);
  lines_.clear();
}

}  // namespace tmflow::htm::emulated
