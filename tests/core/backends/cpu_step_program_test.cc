// Use of the prompt's keys and values in a step of the demo's UNet, which are computed once a
// request: it reads them where they lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/lowering/lowering.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/split.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/weights/containers/checkpoint.h"
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
                   weights::Checkpoint::Open({testing::SourcePath("deploy/demo-model/base")}));
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

// Marks the request part's results among the program's storages.
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
  const Program program = lowering::Lower(graph, graph::ExtractRecipes(graph),
                                          CpuKernelRules({&KernelsOfThisMachine(), 1}));
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

}  // namespace
}  // namespace latentd::backends::cpu
