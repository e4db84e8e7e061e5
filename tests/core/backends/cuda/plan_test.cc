#include "core/backends/cuda/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

CudaPlan SomePlan() {
  return {{{"convolution bf16 1x8", std::string("\0\1plan", 6)}, {"product 1x2x3", ""}},
          {{0, 256, 1024}, 2048}};
}

TEST(CudaPlanTest, IsReadAsItWasWritten) {
  ASSERT_OK_AND_ASSIGN(const CudaPlan read, Decode(Encode(SomePlan())));
  EXPECT_EQ(read.choices, SomePlan().choices);
  EXPECT_EQ(read.memory.offsets, SomePlan().memory.offsets);
  EXPECT_EQ(read.memory.arena_bytes, 2048u);
}

TEST(CudaPlanTest, IsRefusedWhereverItIsCutOff) {
  const std::string bytes = Encode(SomePlan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Decode(bytes.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument, _))
        << size;
  }
  EXPECT_THAT(Decode(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST(CudaPlanTest, OfAnotherVersionIsRefused) {
  std::string bytes = Encode(SomePlan());
  ++bytes[7];
  EXPECT_THAT(Decode(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("this version")));
}

TEST(CudaPlanTest, OfMoreChoicesThanBytesAllocatesNothing) {
  std::string bytes = Encode({});
  bytes.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(Decode(bytes), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace latentd::backends::cuda
