// local_steps under every schedule.
#include "tmflow/strategies/local_steps.hpp"

#include "expected.hpp"

namespace tmflow::explore {
namespace {

template <class Policy = local::Sound>
auto local_steps(int every) {
  return [=] { return std::make_unique<BasicLocalSteps<Atom, Policy>>(every); };
}

constexpr Plan kOneWithAReader{.updaters = 1, .readers = 1, .elements = 1, .block = 1};

// With 1, every update is published; with 2, one thread publishes its second update, and the end what is
// left.
TEST(Explored, LocalSteps) {
  expect_proven("local_steps, 2 updaters x 1 element, each published",
                check_consistency({.elements = 1, .block = 1}, local_steps(1)));
  expect_proven("local_steps, 2 updaters x 2 elements, every 2",
                check_consistency({.again = 2, .read_own = true}, local_steps(2)));
  expect_proven("local_steps, 1 updater, 1 reader, 1 element",
                check_consistency(kOneWithAReader, local_steps(1)));
}

struct PublishesUnlocked : local::Sound {
  static constexpr bool kLocks = false;
};
struct ReplacesAlways : local::Sound {
  static constexpr bool kComparesVersions = false;
};

TEST(SeededInLocalSteps, IsFound) {
  expect_found("local_steps: a publication without the lock",
               check_consistency(kOneWithAReader, local_steps<PublishesUnlocked>(1)), "data race");
  expect_found("local_steps: a copy replaces what another worker published",
               check_consistency({}, local_steps<ReplacesAlways>(1)), "an update is lost");
}

}  // namespace
}  // namespace tmflow::explore
