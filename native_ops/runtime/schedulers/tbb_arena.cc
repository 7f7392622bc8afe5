#include "tbb_arena.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

namespace tmflow::runtime {
namespace {

// One thread for each processor that the process may use. The arena has no place for threads of others,
// because they only give it tasks; so that all of its threads can be oneTBB's, the process may have one more
// than processors.
class Arena {
 public:
  // It is never destroyed, because steps may run while the process ends.
  static oneapi::tbb::task_arena& shared() {
    static Arena* const arena = new Arena(oneapi::tbb::info::default_concurrency());
    return arena->arena_;
  }

 private:
  explicit Arena(int threads)
      : control_(oneapi::tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
        arena_(threads, 0) {
    arena_.initialize();
  }

  oneapi::tbb::global_control control_;
  oneapi::tbb::task_arena arena_;
};

}  // namespace

void TbbArena::spawn(const Runner&, std::span<const Task> tasks) {
  for (const Task& task : tasks) {
    Arena::shared().enqueue([task] {  // called as a constant
      Task copy = task;
      copy();
    });
  }
}

}  // namespace tmflow::runtime
