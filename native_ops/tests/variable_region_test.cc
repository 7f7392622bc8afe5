// TensorFlow's variables as regions: the tests that need no kernel. The others run in sessions
// (tests/native).
#include "../src/tensorflow/variable_region.hpp"

#include <gtest/gtest.h>

#include <span>
#include <thread>

namespace tmflow::tf {
namespace {

struct Looked {};

// Records whether the variable's mutex is held while the region accesses the variable, and ends the access.
class Watch final : public Operands<float> {
 public:
  explicit Watch(Mutex& mutex) : mutex_(mutex) {}

  void check_shape(const tensorflow::TensorShape&) const override {
    std::thread([&] {
      held = !mutex_.try_lock();
      if (!held) mutex_.unlock();
    }).join();
    throw Looked();
  }
  void check_apart(std::span<const float>, const std::string&) const override {}

  mutable bool held = false;

 private:
  Mutex& mutex_;
};

class ResourceRegionTest : public testing::TestWithParam<Access> {
 protected:
  void SetUp() override {
    *variable_->tensor() = Tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({8}));
    variable_->is_initialized = true;
  }

  const tensorflow::core::RefCountPtr<tensorflow::Var> variable_{new tensorflow::Var(tensorflow::DT_FLOAT)};
  MemoryOfVariable memory_;
};

// An assignment replaces the variable's tensor under the mutex, so an access to the tensor must hold the
// mutex.
TEST_P(ResourceRegionTest, LooksAtTheVariableUnderItsMutex) {
  const Watch watch(*variable_->mu());
  ResourceRegion<float> region(nullptr, *variable_, memory_, GetParam(), &watch);
  if (GetParam() == Access::updates) {
    EXPECT_THROW(region.begin(), Looked);
  } else {
    EXPECT_THROW(region.memory(Holding::nothing), Looked);
  }
  EXPECT_TRUE(watch.held);
}

INSTANTIATE_TEST_SUITE_P(Both, ResourceRegionTest, testing::Values(Access::reads, Access::updates));

}  // namespace
}  // namespace tmflow::tf
