// A thread of the program under test: a stack and a switch to it.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tmflow::explore {

// Its stack is reused in later executions. `run` never returns: it switches away at its end.
class Fiber {
 public:
  void prepare(std::function<void()> run) {
    run_ = std::move(run);
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    starting = this;
    makecontext(&context_, [] { starting->run_(); }, 0);
  }

  // A fiber cannot see at its first switch which one it is, so it is passed here.
  void enter_from(ucontext_t& from) {
    starting = this;
    swapcontext(&from, &context_);
  }

  ucontext_t& context() noexcept { return context_; }

 private:
  static constexpr std::size_t kStackBytes = std::size_t{256} << 10;
  static inline Fiber* starting = nullptr;

  std::unique_ptr<std::byte[]> stack_ = std::make_unique<std::byte[]>(kStackBytes);
  ucontext_t context_{};
  std::function<void()> run_;
};

}  // namespace tmflow::explore
