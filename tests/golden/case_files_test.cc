#include "tests/golden/case_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using device::Buffer;
using device::DType;
using ::testing::HasSubstr;

Buffer Floats(const std::vector<float>& values) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), buffer.as<float>().begin());
  return buffer;
}

TEST(Distance, IsTheLargestDifference) {
  EXPECT_EQ(*Distance(Floats({1, -4, 2}), Floats({1, -3, 2.5}), Scale::kAbsolute), 1);
}

TEST(Distance, IsRelativeToTheLargestExpectedValue) {
  EXPECT_EQ(*Distance(Floats({1, -4, 2}), Floats({1, -3, 2.5}), Scale::kRelative), 0.25);
  EXPECT_EQ(*Distance(Floats({0, 0}), Floats({0, 3}), Scale::kRelative), 3);
}

TEST(Distance, IsNanIfEitherHasANan) {
  EXPECT_TRUE(std::isnan(*Distance(Floats({1, NAN}), Floats({1, 2}), Scale::kRelative)));
  EXPECT_TRUE(std::isnan(*Distance(Floats({1, 2}), Floats({NAN, 2}), Scale::kRelative)));
}

TEST(Distance, NeedsEqualShapes) {
  EXPECT_THAT(
      Distance(Floats({1, 2}), Floats({1}), Scale::kAbsolute),
      testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[1] instead of [2]")));
}

}  // namespace
}  // namespace latentd::golden
