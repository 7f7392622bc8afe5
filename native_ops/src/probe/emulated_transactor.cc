// An emulated processor in the place of a real one: what the probe finds of it must be what it was given.
#include <deque>
#include <numeric>
#include <thread>

#include "../train/pinning.hpp"
#include "tmflow/htm/emulated/processor.hpp"
#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {
namespace {

using htm::emulated::Access;
using htm::emulated::Dialect;
using htm::emulated::HardwareThread;
using htm::emulated::MachineText;
using htm::emulated::Processor;

// Threads 0 to siblings - 1 are on one core. The next one is on another core, but passes for a sibling too:
// how many share is for the probe to find out. The last one is on another core, and known to be.
class EmulatedTransactor final : public Transactor {
 public:
  explicit EmulatedTransactor(std::string_view text) : processor_(MachineText::parse(text)) {
    for (std::size_t i = 0; i < machine().siblings + 2; ++i) threads_.emplace_back(processor_);
  }

  std::string_view dialect() const override { return machine().dialect == Dialect::rtm ? "rtm" : "power"; }
  bool reported() const override { return true; }
  bool enabled() const override { return true; }

  int first() const override { return 0; }

  // On one processor of ours, two threads would hardly ever be in transactions at once.
  std::optional<int> other_core() const override {
    if (alone_here()) return std::nullopt;
    return static_cast<int>(threads_.size()) - 1;
  }

  std::vector<int> siblings() const override {
    if (alone_here()) return {};
    std::vector<int> numbers(machine().siblings);
    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
  }

  void settle(int) const override {}

  bool attempt(int thread, std::span<const Walk> walks, htm::Ended& ended) override {
    HardwareThread& its = at(thread);
    its.begin();
    bool alive = true;
    for (const Walk& walk : walks) {
      alive = alive && touched(walk, [&](const Access& access) { return its.access({access}); });
    }
    return its.commit(ended, [] {});
  }

  void outside(int thread, const Walk& walk) override {
    HardwareThread& its = at(thread);
    touched(walk, [&](const Access& access) {
      its.notice({access});
      return true;
    });
  }

  void prepare(const Walk&) const override {}  // nobody reads the memory

  std::size_t dwelling() const override { return 100; }

 private:
  const htm::emulated::Machine& machine() const { return processor_.machine(); }
  static bool alone_here() { return train::allowed_processors().size() < 2; }
  HardwareThread& at(int thread) { return threads_[static_cast<std::size_t>(thread)]; }

  // False as soon as `access` says so.
  template <class Touch>
  static bool touched(const Walk& walk, const Touch& access) {
    for (std::size_t time = 0; time < walk.times; ++time) {
      if (time > 0) leave_others_room();
      for (std::size_t i = 0; i < walk.count; ++i) {
        const Access its = walk.write ? Access::written(walk.place(i), 1) : Access::read(walk.place(i), 1);
        if (!access(its)) return false;
      }
    }
    return true;
  }

  // Who stays in a transaction would take the lock of the processor again and again, and others never got it.
  static void leave_others_room() {
    for (int i = 0; i < 5; ++i) std::this_thread::yield();
  }

  Processor processor_;
  std::deque<HardwareThread> threads_;
};

}  // namespace

std::unique_ptr<Transactor> make_emulated_transactor(std::string_view machine) {
  return std::make_unique<EmulatedTransactor>(machine);
}

}  // namespace tmflow::probe
