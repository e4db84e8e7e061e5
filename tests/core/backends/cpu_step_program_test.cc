// What a step of the demo's UNet does with the keys and values of the prompt, which are computed
// once a request: it reads them where they lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/lowering.h"
#include "core/base/status_macros.h"
#include "core/graph/split.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/weights/checkpoint.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;
using graph::Graph;

constexpr int64_t kRows = 2, kTokens = 77;

// As it is compiled.
absl::StatusOr<Graph> StepOfTheDemo(DType dtype) {
  ASSIGN_OR_RETURN(const auto checkpoint,
                   weights::Checkpoint::Open(testing::SourcePath("deploy/demo-model/base"), ""));
  ASSIGN_OR_RETURN(const std::string config, checkpoint.ConfigText("unet"));
  const golden::InputShapes inputs = {{"sample", {kRows, 4, 16, 24}},
                                      {"timestep", {kRows}},
                                      {"encoder_hidden_states", {kRows, kTokens, 160}},
                                      {"text_embeds", {kRows, 96}},
                                      {"time_ids", {kRows, 6}}};
  ASSIGN_OR_RETURN(const std::vector<Graph> whole,
                   golden::BuildNetworkGraphs("UNet2DConditionModel", config, inputs));
  ASSIGN_OR_RETURN(const Graph chosen, passes::ChoosePrecision(whole.front(), {dtype}));
  ASSIGN_OR_RETURN(const graph::SplitGraphs split, graph::SplitByRate(chosen));
  ASSIGN_OR_RETURN(const auto backend, CpuBackend::Create());
  return passes::RunPasses(split.step, backend->target());
}

// Of the request part's results among the program's storages.
std::vector<bool> AreOfRequest(const Graph& graph, const Program& program) {
  const std::vector<graph::ValueId> inputs = graph.Select(graph::Op::kInput);
  std::vector<bool> result;
  for (const Storage& storage : program.storages) {
    result.push_back(
        storage.place == Place::kInput &&
        absl::StartsWith(graph.node(inputs[storage.index]).name, graph::kPackedPrefix));
  }
  return result;
}

class StepProgram : public ::testing::TestWithParam<DType> {};

TEST_P(StepProgram, NeitherCopiesNorCastsKeysAndValues) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, StepOfTheDemo(GetParam()));
  const Program program = Lower(graph, graph::ExtractRecipes(graph), {&KernelsOfThisMachine(), 1});
  const std::vector<bool> of_request = AreOfRequest(graph, program);
  int read_in_place = 0;
  for (const Instruction& instruction : program.instructions) {
    for (const View& operand : instruction.operands) {
      if (!operand.present() || !of_request[operand.storage]) continue;
      if (operand.shape.elements() < kRows * kTokens * 16) continue;  // an embedding
      EXPECT_EQ(instruction.kernel, Kernel::kAttention);
      EXPECT_EQ(operand.dtype, GetParam());
      ++read_in_place;
    }
  }
  const auto is_cross = [](const Instruction& instruction) {
    return instruction.kernel == Kernel::kAttention && instruction.operands[1].shape[1] == kTokens;
  };
  EXPECT_EQ(read_in_place,
            2 * std::count_if(program.instructions.begin(), program.instructions.end(), is_cross));
  EXPECT_GT(read_in_place, 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StepProgram, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(device::Name(info.param)); });

TEST(Reshaped, SaysByStridesWhatItCan) {
  const View dense = DenseView(0, DType::kF32, {2, 30});
  View part = dense;  // elements 5 to 29 of each row, as [2, 24]
  part.offset = 5;
  part.shape = {2, 24};
  const std::optional<View> heads = Reshaped(part, {2, 3, 1, 8});
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(heads->offset, 5);
  EXPECT_THAT(heads->strides, ::testing::ElementsAre(30, 8, 8, 1));
  EXPECT_FALSE(Reshaped(part, {48}).has_value());
  EXPECT_FALSE(Reshaped(part, {4, 12}).has_value());
  EXPECT_FALSE(Reshaped(part, {3, 16}).has_value());
  EXPECT_TRUE(Reshaped(dense, {60})->dense());
  EXPECT_TRUE(Reshaped(DenseView(0, DType::kF32, {1}), {})->dense());
}

// The offsets of a view's elements, in order.
std::vector<int64_t> OffsetsOf(const View& view) {
  std::vector<int64_t> offsets = {view.offset};
  for (int d = 0; d < view.shape.rank(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < view.shape[d]; ++i) next.push_back(offset + i * view.strides[d]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

// Every permutation, with a slice of each of its dimensions, under every shape of three dimensions.
TEST(Reshaped, KeepsTheOrderOfTheElements) {
  int reshaped = 0;
  std::vector<int64_t> order = {0, 1, 2};
  do {
    for (int axis = 0; axis < 3; ++axis) {
      View view = DenseView(0, DType::kF32, {4, 3, 4});
      std::vector<int64_t> dims, strides;
      for (const int64_t d : order) {
        dims.push_back(view.shape[static_cast<int>(d)] - (d == axis ? 1 : 0));
        strides.push_back(view.strides[d]);
      }
      view.shape = graph::Shape(dims);
      view.strides = strides;
      const int64_t elements = view.shape.elements();
      for (int64_t a = 1; a <= elements; ++a) {
        for (int64_t b = 1; a * b <= elements; ++b) {
          if (elements % (a * b) != 0) continue;
          const std::optional<View> result = Reshaped(view, {a, b, elements / (a * b)});
          if (!result.has_value()) continue;
          ++reshaped;
          EXPECT_EQ(OffsetsOf(*result), OffsetsOf(view));
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_GT(reshaped, 80);
}

}  // namespace
}  // namespace latentd::backends::cpu
