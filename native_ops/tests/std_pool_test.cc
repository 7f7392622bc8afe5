// The pool of threads of the executors, without TensorFlow: every task runs once, whoever gives it and
// however many wait.
#include "runtime/schedulers/std_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/schedulers/pool_threads.hpp"

namespace tmflow::runtime {
namespace {

void give(const Task& task) { StdPool::spawn({}, std::span(&task, 1)); }

// Counts without synchronisation what each task does to its element, so that ThreadSanitizer reports two
// threads at one task, and a task that does not see what happened before it was given.
TEST(StdPool, RunsEachTaskOnceWhoeverGivesIt) {
  constexpr int kGivers = 4, kBatches = 500, kBatch = 7;
  std::vector<int> runs(kGivers * kBatches * kBatch);
  std::latch done(kGivers * kBatches * kBatch);
  std::vector<std::thread> givers;
  for (int giver = 0; giver < kGivers; ++giver) {
    givers.emplace_back([&, giver] {
      for (int batch = 0; batch < kBatches; ++batch) {
        std::vector<Task> tasks;
        for (int i = 0; i < kBatch; ++i) {
          int* const run = &runs[static_cast<std::size_t>((giver * kBatches + batch) * kBatch + i)];
          *run = 1;
          tasks.emplace_back([run, &done] {
            *run += 1;
            done.count_down();
          });
        }
        StdPool::spawn({}, tasks);
        if (batch % 50 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& giver : givers) giver.join();
  done.wait();
  for (const int run : runs) ASSERT_EQ(run, 2);
}

// One task after another, so that the threads of the pool sleep and wake each time.
TEST(StdPool, WakesForATaskThatComesLater) {
  for (int i = 0; i < 300; ++i) {
    std::latch done(1);
    int seen = 0;
    give(Task([&done, &seen] {
      seen = 1;
      done.count_down();
    }));
    done.wait();
    ASSERT_EQ(seen, 1);
    if (i % 10 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // longer than a thread spins
  }
}

TEST(StdPool, TasksGiveTasks) {
  struct Tree {
    std::atomic<int> runs{0};
    std::latch done{1 << 10};

    void grow(int levels) {
      runs.fetch_add(1, std::memory_order_relaxed);
      if (levels == 0) return done.count_down();
      const Task branch([this, levels] { grow(levels - 1); });
      const std::vector<Task> both(2, branch);
      StdPool::spawn({}, both);
    }
  } tree;
  give(Task([&tree] { tree.grow(10); }));
  tree.done.wait();
  EXPECT_EQ(tree.runs.load(), (1 << 11) - 1);
}

// Tasks that wait for each other, and more of them than threads.
struct Meeting {
  explicit Meeting(int of) : tasks(of), done(of) {}

  Task task() {
    return Task([this] {
      std::unique_lock lock(mutex);
      if (++here == tasks) all_here.notify_all();
      all_here.wait(lock, [this] { return here == tasks; });
      lock.unlock();
      done.count_down();
    });
  }

  const int tasks;
  std::latch done;
  std::mutex mutex;
  std::condition_variable all_here;
  int here = 0;
};

TEST(StdPool, AddsThreadsWhenAllWait) {
  Meeting meeting(pool_threads() + 3);
  for (int i = 0; i < meeting.tasks; ++i) give(meeting.task());
  meeting.done.wait();
  EXPECT_EQ(meeting.here, meeting.tasks);
}

// All come at once while every thread sleeps, so none that waits is seen by whoever gives them.
TEST(StdPool, AddsThreadsWhenAllThatSleepWillWait) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a thread spins for 50 us
  Meeting meeting(pool_threads() + 3);
  StdPool::spawn({}, std::vector<Task>(static_cast<std::size_t>(meeting.tasks), meeting.task()));
  meeting.done.wait();
  EXPECT_EQ(meeting.here, meeting.tasks);
}

}  // namespace
}  // namespace tmflow::runtime
