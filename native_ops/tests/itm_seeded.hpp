// A transaction with a bug: the library is not told what its body reads and writes.
#pragma once

#include <functional>

#include "seeded.hpp"

namespace tmflow::seeded {

void in_blind_transaction(const std::function<void()>& body) noexcept;

// As PrivateLockInStep, inside such transactions: of every two updates exactly one is lost. Needs a method
// that lets two transactions run at once.
class BlindTransactions {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    in_blind_transaction([&] { in_step_.apply(region, update, stats); });
  }

 private:
  PrivateLockInStep in_step_;
};

}  // namespace tmflow::seeded
