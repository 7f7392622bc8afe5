// Compiled with -fgnu-tm, for itm_test.cc.
#include "itm_seeded.hpp"

namespace tmflow::seeded {
namespace {

[[gnu::transaction_pure]] void unseen(const std::function<void()>& body) noexcept { body(); }

}  // namespace

void in_blind_transaction(const std::function<void()>& body) noexcept {
  __transaction_atomic { unseen(body); }
}

}  // namespace tmflow::seeded
