// The update as one of GCC's transactions, and the library that runs it in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tmflow::itm {

// How the body of a transaction ran. Written from inside it, where nothing that the library logs may be: what
// a restart undoes, this keeps.
struct Execution {
  std::int64_t times = 0;  // 1, and 1 more for each restart
  bool alone = false;      // it ended irrevocable, which libitm makes it under a lock of all transactions
};

// variable[i] -= alpha * delta[i] for all i, as one transaction.
//
// Contract: whatever other transactions of this process do at the same time, the result is that of all of
// them one after another. No exception leaves it. Memory ordering: transactions of which one saw what the
// other wrote are ordered, as if by a mutex; code outside of transactions takes no part, and may see what is
// undone later.
template <class T>
using Update = void (*)(T* variable, const T* delta, T alpha, std::size_t n, Execution& execution) noexcept;

// Compiled at "O0" or "O3"; to be called only where `why_not` is empty.
template <class T>
Update<T> find_update(std::string_view optimisation) noexcept;

// Why this build has no such transactions.
std::optional<std::string> why_not();

// Fixes libitm's method, which is done by the first transaction of a process and forever: by what its
// environment says in ITM_DEFAULT_METHOD. Throws std::invalid_argument if that is another one than `method`,
// if a library was put before libitm that is not whole, or if the method needs hardware that is not there.
void require_method(std::string_view method);

// The file of the library whose transactions these are; nullopt where `why_not` is not empty.
std::optional<std::string> library_in_use();

}  // namespace tmflow::itm
