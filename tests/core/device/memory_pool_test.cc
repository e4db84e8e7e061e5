// Memory that is kept when it is freed, over a driver of the test's.
#include "core/device/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;

constexpr size_t kMiB = size_t{1} << 20;

using Memory = std::shared_ptr<void>;

class MemoryPoolTest : public ::testing::Test {
 protected:
  Memory Take(size_t bytes) { return pool_->Take(bytes).value(); }
  size_t held() const { return taken_.size(); }

  size_t most_ = 100;  // pieces that the driver has
  std::set<void*> taken_;
  const std::shared_ptr<MemoryPool> pool_ = std::make_shared<MemoryPool>(
      MemoryDriver{[this](size_t, void*& memory) -> absl::Status {
                     if (taken_.size() == most_) return OutOfMemoryError("the test's memory");
                     memory = reinterpret_cast<void*>(++next_ * 4096);  // never dereferenced
                     taken_.insert(memory);
                     return absl::OkStatus();
                   },
                   [this](void* memory) { EXPECT_EQ(taken_.erase(memory), 1u); }});

 private:
  uintptr_t next_ = 0;
};

TEST_F(MemoryPoolTest, GivesWhatWasFreedLastToTheNextOfItsSize) {
  Memory first = Take(3 * kMiB), second = Take(3 * kMiB);
  const void* last = second.get();
  EXPECT_EQ(pool_->used_bytes(), 8 * kMiB);
  first.reset();
  second.reset();
  EXPECT_EQ(pool_->idle_bytes(), 8 * kMiB);
  const Memory other_size = Take(5 * kMiB), again = Take(4 * kMiB);
  EXPECT_EQ(again.get(), last);
  EXPECT_EQ(held(), 3u);
}

TEST_F(MemoryPoolTest, AsksTheDriverAgainOnceItHasGivenBackWhatIsIdle) {
  most_ = 2;
  Take(kMiB);
  const Memory used = Take(2 * kMiB);
  EXPECT_TRUE(pool_->Take(4 * kMiB).ok());
  const Memory more = Take(6 * kMiB);
  const auto none = pool_->Take(8 * kMiB);
  EXPECT_THAT(none.status(), StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(GetReason(none.status()), "OUT_OF_MEMORY");
  EXPECT_EQ(pool_->used_bytes(), 8 * kMiB);
}

TEST_F(MemoryPoolTest, GivesBackAllThatNobodyHas) {
  const Memory used = Take(kMiB);
  Take(kMiB);
  Take(2 * kMiB);
  pool_->GiveBack(Kept::kAll);
  EXPECT_EQ(held(), 1u);
  EXPECT_EQ(pool_->idle_bytes(), 0u);
}

TEST_F(MemoryPoolTest, KeepsOfEachSizeAsMuchAsWasTakenSinceItGaveBackLast) {
  for (int i = 0; i < 3; ++i) Take(kMiB);  // one after the other: the same
  { const std::vector<Memory> together = {Take(kMiB), Take(kMiB), Take(2 * kMiB)}; }
  pool_->GiveBack(Kept::kUnused);  // all of it has been taken
  EXPECT_EQ(held(), 3u);
  const void* last = Take(kMiB).get();
  pool_->GiveBack(Kept::kUnused);
  EXPECT_EQ(held(), 1u);
  EXPECT_EQ(Take(kMiB).get(), last);  // the block that had been idle for longest was freed
  pool_->GiveBack(Kept::kUnused);
  EXPECT_EQ(held(), 1u);
  pool_->GiveBack(Kept::kUnused);
  EXPECT_EQ(held(), 0u);
}

TEST_F(MemoryPoolTest, WhatIsUsedThroughoutIsNotIdleAfterwards) {
  Memory used = Take(kMiB);
  pool_->GiveBack(Kept::kUnused);
  pool_->GiveBack(Kept::kUnused);
  used.reset();
  pool_->GiveBack(Kept::kUnused);
  EXPECT_EQ(held(), 1u);
  pool_->GiveBack(Kept::kUnused);
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace latentd::device
