#include "hpx_tasks.hpp"

#include <hpx/future.hpp>

#include "hpx/hpx_runtime.hpp"

namespace tmflow::runtime {

void HpxTasks::start() { start_hpx(); }

void HpxTasks::spawn(const Runner&, std::span<const Task> tasks) {
  const hpx::execution::parallel_executor executor = task_executor();
  for (const Task& task : tasks) {
    hpx::post(executor, [task] {  // called as a constant
      Task copy = task;
      copy();
    });
  }
}

}  // namespace tmflow::runtime
