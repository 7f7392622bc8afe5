// An emulated processor in place of a real one: the probe must find the properties that the processor was
// given.
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

// Threads 0 to siblings - 1 are on one core. The next one is on another core but is listed as a sibling,
// because the probe must find out how many threads share a core. The last one is known to be on another core.
class EmulatedTransactor final : public Transactor {
 public:
  explicit EmulatedTransactor(std::string_view text) : processor_(MachineText::parse(text)) {
    for (std::size_t i = 0; i < machine().siblings + 2; ++i) threads_.emplace_back(processor_);
  }

  std::string_view dialect() const override { return machine().dialect == Dialect::rtm ? "rtm" : "power"; }
  bool reported() const override { return true; }
  bool enabled() const override { return true; }

  int first() const override { return 0; }

  // On a single real processor, two threads would almost never be in transactions at the same time.
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
    HardwareThread& hardware = at(thread);
    hardware.begin();
    bool alive = true;
    for (const Walk& walk : walks) {
      alive = alive && touched(walk, [&](const Access& access) { return hardware.access({access}); });
    }
    return hardware.commit(ended, [] {});
  }

  void outside(int thread, const Walk& walk) override {
    HardwareThread& hardware = at(thread);
    touched(walk, [&](const Access& access) {
      hardware.notice({access});
      return true;
    });
  }

  void prepare(const Walk&) const override {}  // nobody reads the memory

  std::size_t dwelling() const override { return 100; }

 private:
  const htm::emulated::Machine& machine() const { return processor_.machine(); }
  static bool alone_here() { return train::allowed_processors().size() < 2; }
  HardwareThread& at(int thread) { return threads_[static_cast<std::size_t>(thread)]; }

  // False as soon as `access` returns false.
  template <class Touch>
  static bool touched(const Walk& walk, const Touch& access) {
    for (std::size_t time = 0; time < walk.times; ++time) {
      if (time > 0) leave_others_room();
      for (std::size_t i = 0; i < walk.count; ++i) {
        const Access one = walk.write ? Access::written(walk.place(i), 1) : Access::read(walk.place(i), 1);
        if (!access(one)) return false;
      }
    }
    return true;
  }

  // Without it, a thread in a long transaction would retake the processor's lock again and again, and the
  // others would starve.
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
