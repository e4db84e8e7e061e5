#include "server/process/memory/heap_trim.h"

#include <gtest/gtest.h>

namespace latentd::server::process {
namespace {

constexpr int64_t kMiB = 1 << 20;

class HeapTrimTest : public ::testing::Test {
 protected:
  HeapTrimTest() { trim_.Done(100 * kMiB); }

  // True if it is due, a second after the last question.
  bool IsDue(int64_t open_files, int64_t kept_mib) {
    now_ += absl::Seconds(1);
    return trim_.IsDue(now_, {open_files, kept_mib * kMiB});
  }

  bool IsDueBeforeLong(int64_t open_files, int64_t kept_mib) {
    for (int i = 0; i < 10; ++i) {
      if (IsDue(open_files, kept_mib)) return true;
    }
    return false;
  }

  absl::Time now_ = absl::UnixEpoch();
  HeapTrim trim_;
};

TEST_F(HeapTrimTest, MemoryGoesBackAWhileAfterThoseWhoTookItHaveLeft) {
  EXPECT_FALSE(IsDueBeforeLong(10, 100));
  EXPECT_FALSE(IsDueBeforeLong(1000, 400));
  EXPECT_FALSE(IsDue(10, 400));
  EXPECT_TRUE(IsDueBeforeLong(10, 400));
}

TEST_F(HeapTrimTest, LittleIsKept) {
  EXPECT_FALSE(IsDue(1000, 163));
  EXPECT_FALSE(IsDueBeforeLong(10, 163));
  EXPECT_TRUE(IsDueBeforeLong(10, 164));
}

TEST_F(HeapTrimTest, WhatIsInUseIsNotGivenBackAgainAndAgain) {
  EXPECT_FALSE(IsDue(1000, 400));
  EXPECT_TRUE(IsDueBeforeLong(900, 400));
  trim_.Done(390 * kMiB);
  EXPECT_FALSE(IsDueBeforeLong(900, 400));
  EXPECT_FALSE(IsDueBeforeLong(800, 400));
}

TEST_F(HeapTrimTest, ThoseWhoComeAndGoDoNotPutItOffForEver) {
  EXPECT_FALSE(IsDue(1000, 400));
  int asked = 1;
  while (!IsDue(1000 - asked % 2, 400) && asked < 1000) ++asked;
  EXPECT_GT(asked, 10);
  EXPECT_LT(asked, 100);
  trim_.Done(100 * kMiB);
  EXPECT_FALSE(IsDueBeforeLong(1000, 400));
}

}  // namespace
}  // namespace latentd::server::process
