// The update as one of GCC's transactions, and the library that runs it in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tmflow/core/kernel.hpp"

namespace tmflow::itm {

// How the body of a transaction ran. It is written from inside the transaction but not logged by the library,
// so a restart does not undo it.
struct Execution {
  std::int64_t times = 0;  // 1, and 1 more for each restart
  bool alone = false;      // it became irrevocable, for which libitm takes a lock of all transactions
};

// variable[i] -= alpha * gradient[i] for the elements of all rows of the gradient, as one transaction.
//
// Contract: concurrent transactions of this process are serialisable. No exception leaves it. Memory
// ordering: if one transaction saw a write of another, the two are ordered, as if by a mutex. Code outside of
// transactions is not isolated, and may see writes that are undone later.
template <class T>
using Update = void (*)(T* variable, const RowPointers<T>& gradient, T alpha, Execution& execution) noexcept;

// Compiled at "O0" or "O3"; to be called only where `why_not` is empty.
template <class T>
Update<T> find_update(std::string_view optimisation) noexcept;

// The reason why this build has no such transactions.
std::optional<std::string> why_not();

// Fixes libitm's method, which the first transaction of a process does permanently, from ITM_DEFAULT_METHOD
// in its environment. Throws std::invalid_argument if that is not `method`, if an incomplete library was
// loaded before libitm, or if the method needs hardware that is missing.
void require_method(std::string_view method);

// The file of the library that runs these transactions; nullopt if `why_not` is not empty.
std::optional<std::string> library_in_use();

}  // namespace tmflow::itm
