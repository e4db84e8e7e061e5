#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/cpu/binding/loop_nest.h"
#include "core/backends/cpu/plan.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(CpuPlan, IsReadBackAsItWasWritten) {
  CpuPlan plan;
  plan.algorithms = {Algorithm{0}, Algorithm{1}, Algorithm{255}};
  plan.memory = {{0, 64, size_t{1} << 40}, 128};
  ASSERT_OK_AND_ASSIGN(const CpuPlan read, Decode(Encode(plan)));
  EXPECT_EQ(read.algorithms, plan.algorithms);
  EXPECT_EQ(read.memory.offsets, plan.memory.offsets);
  EXPECT_EQ(read.memory.arena_bytes, plan.memory.arena_bytes);
}

TEST(CpuPlan, IsLittleEndianByteForByte) {
  CpuPlan plan;
  plan.algorithms = {Algorithm{1}};
  plan.memory = {{0x0102}, 0x40};
  const std::string expected(
      "latcpu\0\1"
      "\1\0\0\0\1"
      "\1\0\0\0\x02\x01\0\0\0\0\0\0"
      "\x40\0\0\0\0\0\0\0",
      8 + 5 + 12 + 8);
  EXPECT_EQ(Encode(plan), expected);
}

TEST(CpuPlan, OfAnotherVersionIsRefused) {
  std::string bytes = Encode({});
  ++bytes[7];
  EXPECT_THAT(Decode(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("this version")));
}

TEST(CpuPlan, WithACountBeyondItsBytesIsRefused) {
  std::string bytes = Encode({});
  bytes[8] = bytes[9] = bytes[10] = bytes[11] = '\xff';
  EXPECT_THAT(Decode(bytes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cut off")));
}

View Strided(graph::Shape shape, std::vector<int64_t> strides) {
  return {0, 0, graph::DType::kF32, std::move(shape), std::move(strides)};
}

TEST(LoopsOver, JoinsDimensionsThatLieWithinEachOther) {
  const View dense = Strided({2, 3, 4}, {12, 4, 1});
  const LoopNest loops = LoopsOver({&dense, &dense});
  EXPECT_EQ(loops.rank, 1);
  EXPECT_EQ(loops.sizes[0], 24);
}

TEST(LoopsOver, KeepsDimensionsApartThatOneViewHasElsewhere) {
  const View dense = Strided({2, 3, 4}, {12, 4, 1}), rows = Strided({2, 3, 4}, {4, 0, 1});
  const LoopNest loops = LoopsOver({&dense, &rows});
  EXPECT_EQ(loops.rank, 3);
  EXPECT_EQ(loops.strides[1][1], 0);
}

TEST(LoopsOver, LeavesOutDimensionsOfOneElement) {
  const View x = Strided({1, 5, 1, 3}, {99, 3, 42, 1});
  const LoopNest loops = LoopsOver({&x, &x});
  EXPECT_EQ(loops.rank, 1);
  EXPECT_EQ(loops.sizes[0], 15);
}

TEST(LoopsOver, HasOneLoopForAScalar) {
  const View scalar = Strided({}, {});
  const LoopNest loops = LoopsOver({&scalar, &scalar});
  EXPECT_EQ(loops.rank, 1);
  EXPECT_EQ(loops.sizes[0], 1);
}

}  // namespace
}  // namespace latentd::backends::cpu
