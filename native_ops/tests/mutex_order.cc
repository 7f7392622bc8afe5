// TensorFlow's mutex, made visible to ThreadSanitizer.
//
// TensorFlow is not compiled with ThreadSanitizer, and its mutex is an absl::Mutex, which waits by system
// calls. So ThreadSanitizer does not see it, and reports what it guards as a race. This library is preloaded:
// its functions replace those of absl, also for TensorFlow itself. Each does what it replaces, and notifies
// ThreadSanitizer.
//
// Conditions (Await, CondVar) release and take the mutex inside absl, without a notification.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define OF_MUTEX(mangled) "_ZN4absl12" TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME) "5Mutex" mangled

namespace {

// absl's function, by its linker name. Python loads TensorFlow's libraries without exporting their symbols,
// so the function is looked up in the library that contains it, which is loaded by then.
template <class Result>
auto absls(const char* name) {
  using Function = Result (*)(absl::Mutex*);
  void* const framework = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Function>(dlsym(framework, name));
}

template <class Take>
void take(absl::Mutex* mutex, unsigned flags, const Take& absls_take) {
  __tsan_mutex_pre_lock(mutex, flags);
  absls_take(mutex);
  __tsan_mutex_post_lock(mutex, flags, 0);
}

template <class Take>
bool try_take(absl::Mutex* mutex, unsigned flags, const Take& absls_take) {
  flags |= __tsan_mutex_try_lock;
  __tsan_mutex_pre_lock(mutex, flags);
  const bool taken = absls_take(mutex);
  __tsan_mutex_post_lock(mutex, taken ? flags : flags | __tsan_mutex_try_lock_failed, 0);
  return taken;
}

template <class Release>
void release(absl::Mutex* mutex, unsigned flags, const Release& absls_release) {
  __tsan_mutex_pre_unlock(mutex, flags);
  absls_release(mutex);
  __tsan_mutex_post_unlock(mutex, flags);
}

constexpr unsigned kExclusive = 0, kShared = __tsan_mutex_read_lock;

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::lock() {
  static const auto of_absl = absls<void>(OF_MUTEX("4lockEv"));
  take(this, kExclusive, of_absl);
}

bool Mutex::try_lock() {
  static const auto of_absl = absls<bool>(OF_MUTEX("8try_lockEv"));
  return try_take(this, kExclusive, of_absl);
}

void Mutex::unlock() {
  static const auto of_absl = absls<void>(OF_MUTEX("6unlockEv"));
  release(this, kExclusive, of_absl);
}

void Mutex::lock_shared() {
  static const auto of_absl = absls<void>(OF_MUTEX("11lock_sharedEv"));
  take(this, kShared, of_absl);
}

bool Mutex::try_lock_shared() {
  static const auto of_absl = absls<bool>(OF_MUTEX("15try_lock_sharedEv"));
  return try_take(this, kShared, of_absl);
}

void Mutex::unlock_shared() {
  static const auto of_absl = absls<void>(OF_MUTEX("13unlock_sharedEv"));
  release(this, kShared, of_absl);
}

ABSL_NAMESPACE_END
}  // namespace absl
