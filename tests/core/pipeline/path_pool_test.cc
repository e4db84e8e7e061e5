#include "core/pipeline/lanes/path_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using ::testing::Each;

constexpr int kSlots = 2;

class PathPoolTest : public ::testing::Test {
 protected:
  PathPoolTest() {
    StepPaths paths = {.slots = kSlots, .ranks = 1, .at = {{{"unet/a.weight", 2, 3}}}};
    elements_ = paths.layout().slot_elements;
    pool_ = PathPool::Create(device::Host(), paths).value();
  }

  // A set whose matrices are all of that number.
  std::shared_ptr<const AdapterPaths> SetOf(float number) const {
    const Buffer matrices = Buffer::Allocate(DType::kF32, {elements_});
    std::fill(matrices.as<float>().begin(), matrices.as<float>().end(), number);
    auto set = std::make_shared<AdapterPaths>();
    set->key = std::to_string(number);
    set->matrices = std::make_shared<const device::ConstBuffer>(matrices);
    return set;
  }

  std::optional<PathSlot> Take(float number) {
    auto taken = pool_->Take(SetOf(number), *stream_);
    EXPECT_OK(taken);
    EXPECT_OK(stream_->Synchronize());
    return *std::move(taken);
  }

  std::vector<float> In(int64_t slot) const {
    const Buffer row = pool_->memory().Rows(slot, slot + 1);
    const Buffer own = Buffer::Allocate(row.dtype(), row.shape());
    EXPECT_OK(device::Host().Copy(row, own, *stream_));
    EXPECT_OK(stream_->Synchronize());
    return {own.as<float>().begin(), own.as<float>().end()};
  }

  int64_t elements_ = 0;
  std::shared_ptr<PathPool> pool_;
  const std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
};

TEST_F(PathPoolTest, GivesASlotToEachSetAndOneToTwoUsersOfASet) {
  const auto one = Take(1), other = Take(2), same = Take(1);
  ASSERT_TRUE(one && other && same);
  EXPECT_EQ(same->number(), one->number());
  EXPECT_NE(other->number(), one->number());
  EXPECT_THAT(In(one->number()), Each(1));
  EXPECT_THAT(In(other->number()), Each(2));
}

TEST_F(PathPoolTest, HasNoSlotWhileAllAreUsed) {
  auto one = Take(1);
  const auto other = Take(2);
  EXPECT_FALSE(Take(3).has_value());
  one.reset();
  const auto third = Take(3);
  ASSERT_TRUE(third.has_value());
  EXPECT_THAT(In(third->number()), Each(3));
  EXPECT_THAT(In(other->number()), Each(2));
}

TEST_F(PathPoolTest, TakesTheSlotThatWasUsedLeastRecently) {
  const int64_t first = Take(1)->number(), second = Take(2)->number();
  EXPECT_EQ(Take(1)->number(), first);  // it is still there
  EXPECT_EQ(Take(3)->number(), second);
  EXPECT_EQ(Take(1)->number(), first);
  EXPECT_THAT(In(first), Each(1));
  EXPECT_THAT(In(second), Each(3));
}

TEST_F(PathPoolTest, OutlivesNoSlot) {
  auto slot = Take(1);
  pool_.reset();
  slot.reset();
}

}  // namespace
}  // namespace latentd::pipeline
