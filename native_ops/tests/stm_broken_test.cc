// Each safety mechanism of the STM is needed: without it, the schedule that it prevents goes wrong; with it,
// the same schedule goes right.
#include <gtest/gtest.h>

#include "stm_schedules.hpp"

namespace tmflow::stm {
namespace {

struct ChecksNoVersion : Sound {
  static constexpr bool kChecksVersion = false;
};
struct LooksAtTheLockOnce : Sound {
  static constexpr bool kRechecksLock = false;
};
struct ExtendsBlindly : Sound {
  static constexpr bool kValidatesExtension = false;
};
struct CommitsBlindly : Sound {
  static constexpr bool kValidatesCommit = false;
};
struct LocksNothing : Sound {
  static constexpr bool kLocksWrites = false;
};
struct ReleasesEarly : Sound {
  static constexpr bool kReleasesLast = false;
};
struct RestoresTheLock : Sound {
  static constexpr bool kNewIncarnation = false;
};

template <class Design>
class Broken : public ::testing::Test {};
using Designs = ::testing::Types<EncounterTime, CommitTime, WriteThrough>;
TYPED_TEST_SUITE(Broken, Designs);

TYPED_TEST(Broken, WithoutVersionsReadersBecomeZombies) {
  EXPECT_TRUE((no_zombie_between_reads<TypeParam, TypeParam, Sound>()));
  EXPECT_FALSE((no_zombie_between_reads<TypeParam, TypeParam, ChecksNoVersion>()));
  EXPECT_TRUE((no_zombie_between_reads<Reading, TypeParam, Sound>()));
  EXPECT_FALSE((no_zombie_between_reads<Reading, TypeParam, ChecksNoVersion>()));
}

TYPED_TEST(Broken, WithoutVersionsWritersBecomeZombies) {
  EXPECT_TRUE((no_zombie_under_its_own_lock<TypeParam, Sound>()));
  EXPECT_FALSE((no_zombie_under_its_own_lock<TypeParam, ChecksNoVersion>()));
}

TYPED_TEST(Broken, WithoutValidationAnExtendedSnapshotIsNone) {
  EXPECT_FALSE((no_zombie_between_reads<TypeParam, TypeParam, ExtendsBlindly>()));
}

TYPED_TEST(Broken, WithoutASecondLookAtTheLockReadsAreTorn) {
  EXPECT_TRUE((no_torn_read<TypeParam, TypeParam, Sound>()));
  EXPECT_FALSE((no_torn_read<TypeParam, TypeParam, LooksAtTheLockOnce>()));
  EXPECT_TRUE((no_torn_read<Reading, TypeParam, Sound>()));
  EXPECT_FALSE((no_torn_read<Reading, TypeParam, LooksAtTheLockOnce>()));
}

TYPED_TEST(Broken, WithoutIncarnationsReadsAreDirty) {
  EXPECT_TRUE((no_dirty_read<TypeParam, Sound>()));
  EXPECT_FALSE((no_dirty_read<TypeParam, RestoresTheLock>()));
  EXPECT_FALSE((no_dirty_read<TypeParam, LooksAtTheLockOnce>()));
  EXPECT_TRUE((no_dirty_read<Reading, Sound>()));
  EXPECT_FALSE((no_dirty_read<Reading, RestoresTheLock>()));
}

TYPED_TEST(Broken, WithoutValidationAtTheCommitWritesSkew) {
  EXPECT_TRUE((no_write_skew<TypeParam, Sound>()));
  EXPECT_FALSE((no_write_skew<TypeParam, CommitsBlindly>()));
}

TYPED_TEST(Broken, WithoutLocksUpdatesAreLost) {
  EXPECT_TRUE((no_lost_update<TypeParam, Sound>()));
  EXPECT_FALSE((no_lost_update<TypeParam, LocksNothing>()));
}

TEST(BrokenWriteThrough, WithoutLocksItShowsWhatIsNotCommitted) {
  EXPECT_FALSE((no_uncommitted_read<WriteThrough, LocksNothing>()));
}

template <class Design>
class BrokenWriteBack : public ::testing::Test {};
using WritingBack = ::testing::Types<EncounterTime, CommitTime>;
TYPED_TEST_SUITE(BrokenWriteBack, WritingBack);

TYPED_TEST(BrokenWriteBack, WithLocksReleasedEarlyUpdatesAreLost) {
  EXPECT_TRUE((no_lost_update_at_the_end<TypeParam, Sound>()));
  EXPECT_FALSE((no_lost_update_at_the_end<TypeParam, ReleasesEarly>()));
}

}  // namespace
}  // namespace tmflow::stm
