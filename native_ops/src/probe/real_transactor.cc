// This machine's own transactions.
#include "../train/pinning.hpp"
#include "tmflow/probe/instructions.hpp"
#include "tmflow/probe/tm_probe.hpp"
#include "tmflow/probe/transactor.hpp"
#include "topology.hpp"
#include "touch.hpp"

namespace tmflow::probe {
namespace {

// Hardware threads have the numbers of the system's processors.
class RealTransactor final : public Transactor {
 public:
  explicit RealTransactor(const Instructions& instructions)
      : instructions_(instructions),
        reported_(probe_tm(0).reported),
        cpus_(allowed_cpus()),
        first_(where(cpus_)) {}

  std::string_view dialect() const override { return instructions_.dialect; }
  bool reported() const override { return reported_; }
  bool enabled() const override { return reported_ && instructions_.enabled(); }

  int first() const override { return first_.number; }

  std::optional<int> other_core() const override {
    for (const Cpu& cpu : cpus_) {
      if (cpu.number != first_.number && !same_core(cpu, first_)) return cpu.number;
    }
    return std::nullopt;
  }

  std::vector<int> siblings() const override {
    std::vector<int> numbers;
    for (const Cpu& cpu : cpus_) {
      if (cpu.number != first_.number && same_core(cpu, first_)) numbers.push_back(cpu.number);
    }
    return numbers;
  }

  void settle(int thread) const override { train::stay_on(thread); }

  bool attempt(int, std::span<const Walk> walks, htm::Ended& ended) override {
    return instructions_.attempt(walks, ended);
  }

  void outside(int, const Walk& walk) override { touch(walk); }

  void prepare(const Walk& walk) const override {
    Walk written = walk;
    written.write = true;
    written.times = 1;
    touch(written);
  }

  std::size_t dwelling() const override { return 10'000; }

 private:
  // A thread with siblings if there is one; otherwise the last, because the first has the most interrupts. It
  // is found only once: a search at each of a million attempts would be timed with them.
  static Cpu where(const std::vector<Cpu>& cpus) {
    const auto pair = sibling_pair(cpus);
    return pair ? pair->one : cpus.back();
  }

  const Instructions& instructions_;
  const bool reported_;
  const std::vector<Cpu> cpus_;
  const Cpu first_;
};

}  // namespace

std::unique_ptr<Transactor> make_real_transactor() {
  const Instructions* const found = instructions();
  return found == nullptr ? nullptr : std::make_unique<RealTransactor>(*found);
}

}  // namespace tmflow::probe
