// The order of hardware transactions, as ThreadSanitizer sees it.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tmflow::htm {

// Called at the end of a transaction that elides the mutex, or subscribes to the lock, with this word. It
// does nothing in a usual build.
//
// ThreadSanitizer does not know transactions, so this reports to it what `elide` guarantees: a commit is one
// point in the order of all transactions and of all critical sections of the mutex. The transaction releases
// its writes as if it unlocked the mutex, whose state ThreadSanitizer keeps at the address of the word. The
// read of the word at the beginning acquires it, as locking the mutex does. All of ThreadSanitizer's state is
// in memory, so an abort undoes this together with the transaction's writes. A transaction that ignores a
// locked mutex is still a race, because the owner has released nothing yet.
inline void order_commit([[maybe_unused]] const void* word) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(word));
#endif
}

}  // namespace tmflow::htm
