#include "hpx_tasks.hpp"

#include <hpx/future.hpp>

#include "hpx/hpx_runtime.hpp"
#include "tensorflow/core/platform/denormal.h"

namespace tmflow::runtime {

void HpxTasks::start() { start_hpx(); }

void HpxTasks::spawn(const Runner&, std::span<const Task> tasks) {
  const hpx::execution::parallel_executor executor = task_executor();
  for (const Task& task : tasks) {
    hpx::post(executor, [task] {                          // called as a constant
      const tensorflow::port::ScopedFlushDenormal flush;  // as TensorFlow's threads do
      Task copy = task;
      copy();
    });
  }
}

}  // namespace tmflow::runtime
