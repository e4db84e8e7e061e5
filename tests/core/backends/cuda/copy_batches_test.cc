// Copies that are made in one batch. The conformance suite tests a batch's results in a graph
// (concat_of_slices_of_a_product).
#include "core/backends/cuda/copy_batches.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/backends/cuda/kernel_rules.h"
#include "core/backends/lowering/lowering.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/low_precision.h"
#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using kernels::Element;
using kernels::GpuArray;
using kernels::Values;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using CopyLinesTest = kernels::GpuTest;

// The end of a request part: slices of a product, behind each other in one output.
Program PackedSlices(int count, int64_t channels, DType dtype = DType::kF32) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 3, 16}, Rate::kRequest);
  const Value weight = b.Weight("net/weight", {count * channels, 16});
  const Value merged = b.Linear(x, weight, graph::kNone);
  std::vector<Value> parts;
  for (int i = 0; i < count; ++i) {
    const Value slice = b.Slice(merged, 2, i * channels, (i + 1) * channels);
    parts.push_back(b.Reshape(slice, {1, 3 * channels}));
  }
  b.Output("y", b.Concat(parts, 1));
  const graph::Graph graph = testing::InDType(std::move(b).Build().value(), dtype);
  return lowering::Lower(graph, graph::ExtractRecipes(graph), CudaKernelRules(/*is_hopper=*/true));
}

MATCHER_P2(Is, first, size, "") { return arg.first == first && arg.size == size; }

TEST(CopyBatchesTest, AreCopiesThatFollowEachOther) {
  EXPECT_THAT(CopyBatchesOf(PackedSlices(5, 8)), ElementsAre(Is(1, 5)));
  EXPECT_THAT(CopyBatchesOf(PackedSlices(1, 8)), IsEmpty());
  EXPECT_THAT(CopyBatchesOf(PackedSlices(130, 4)), ElementsAre(Is(1, 64), Is(65, 64), Is(129, 2)));
}

TEST(CopyBatchesTest, AreOfLinesOfWholeWords) {
  EXPECT_THAT(CopyBatchesOf(PackedSlices(5, 6)), IsEmpty());
}

TEST(CopyBatchesTest, CountWordsByTheDtype) {
  EXPECT_THAT(CopyBatchesOf(PackedSlices(3, 8, DType::kBF16)), ElementsAre(Is(1, 3)));
  EXPECT_THAT(CopyBatchesOf(PackedSlices(3, 4, DType::kBF16)), IsEmpty());
}

// Each line must begin at a word, on both sides, and have no gaps itself.
TEST(CopyBatchesTest, LeaveOutWhatHasALineBesideAWord) {
  using Change = void (*)(Instruction & copy);
  const Change changes[] = {
      [](Instruction& copy) { copy.operands[0].offset += 2; },
      [](Instruction& copy) { copy.result.offset += 2; },
      [](Instruction& copy) { copy.result.strides[1] += 2; },
      [](Instruction& copy) { copy.operands[0].strides[1] += 2; },
      [](Instruction& copy) { copy.operands[0].strides[2] = 2; },
      [](Instruction& copy) { copy.result.strides[2] = 2; },
  };
  for (const Change change : changes) {
    Program program = PackedSlices(5, 8);
    change(program.instructions[3]);
    EXPECT_THAT(CopyBatchesOf(program), ElementsAre(Is(1, 2), Is(4, 2)));
  }
}

TEST(CopyBatchesTest, ReadIntermediatesAndWriteToTheCaller) {
  const Program program = PackedSlices(3, 8);
  Program from_caller = program, within = program;
  from_caller.storages[program.instructions[2].operands[0].storage].place = Place::kInput;
  EXPECT_THAT(CopyBatchesOf(from_caller), IsEmpty());
  within.storages[program.instructions[2].result.storage].place = Place::kArena;
  EXPECT_THAT(CopyBatchesOf(within), IsEmpty());
}

TEST(CopyBatchesTest, AreWorkOfTheirFirstInstruction) {
  BoundProgram bound;
  bound.program = PackedSlices(3, 8);
  int calls = 0;
  const BoundKernel::Enqueue counted = [&calls](const Frame&) {
    ++calls;
    return absl::OkStatus();
  };
  bound.kernels.assign(bound.program.instructions.size(), counted);
  BatchCopies(bound);
  for (const int other : {0, 2, 3}) EXPECT_TRUE(bound.kernels[other](Frame()).ok());
  EXPECT_EQ(calls, 1);  // the product
}

TEST_F(CopyLinesTest, CopiesEachPartAndNothingBeside) {
  const Values numbers = kernels::Rounded(Element::kF32, kernels::Normal(64 * 12, 1));
  const GpuArray x(Element::kF32, numbers);
  const GpuArray result = GpuArray::Poisoned(Element::kF32, 400);
  kernels::CopyLinesArgs args;
  // 5 lines of 8 elements from a matrix 12 wide to one without gaps, and 3 of 4 to one 16 wide.
  args.parts[0] = {x.as<float>() + 4, result.as<float>(), 3, 2, 5, 2};
  args.parts[1] = {x.as<float>() + 400, result.as<float>() + 44, 1, 4, 3, 1};
  args.count = 2;
  ASSERT_EQ(kernels::CopyLines(args, nullptr), cudaSuccess);
  const Values copied = result.Read();
  for (int i = 0; i < 400; ++i) {
    const int in_first = i < 40 ? 4 + i / 8 * 12 + i % 8 : -1, second = i - 44;
    const bool is_second = second >= 0 && second < 48 && second % 16 < 4;
    if (in_first >= 0) {
      EXPECT_EQ(copied[i], numbers[in_first]) << i;
    } else if (is_second) {
      EXPECT_EQ(copied[i], numbers[400 + second / 16 * 4 + second % 16]) << i;
    } else {
      EXPECT_TRUE(std::isnan(copied[i])) << i;
    }
  }
}

// Parts of several blocks beside small ones, as many as one launch has.
TEST_F(CopyLinesTest, CopiesAsManyPartsAsThereMayBe) {
  constexpr int kParts = kernels::CopyLinesArgs::kMost, kWords = 700;
  const Values numbers = kernels::Rounded(Element::kF32, kernels::Normal(kParts * 4 * kWords, 1));
  const GpuArray x(Element::kF32, numbers);
  const GpuArray result = GpuArray::Poisoned(Element::kF32, kParts * 4 * kWords);
  kernels::CopyLinesArgs args;
  for (int i = 0; i < kParts; ++i) {
    const int at = 4 * kWords * i;
    args.parts[i] = {x.as<float>() + at, result.as<float>() + at, 0, 0, 1, i % 2 == 0 ? kWords : 1};
  }
  args.count = kParts;
  ASSERT_EQ(kernels::CopyLines(args, nullptr), cudaSuccess);
  const Values copied = result.Read();
  for (int i = 0; i < kParts; ++i) {
    const int begin = 4 * kWords * i, end = begin + (i % 2 == 0 ? 4 * kWords : 4);
    for (int at = begin; at < end; ++at) ASSERT_EQ(copied[at], numbers[at]) << i;
    if (i % 2 != 0) EXPECT_TRUE(std::isnan(copied[end])) << i;
  }
}

TEST_F(CopyLinesTest, RefusesNoPartsAndTooMany) {
  kernels::CopyLinesArgs args;
  EXPECT_EQ(kernels::CopyLines(args, nullptr), cudaErrorInvalidValue);
  args.count = kernels::CopyLinesArgs::kMost + 1;
  EXPECT_EQ(kernels::CopyLines(args, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace latentd::backends::cuda
