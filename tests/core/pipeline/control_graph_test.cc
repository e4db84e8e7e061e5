#include "core/pipeline/graphs/control_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/compiler/compile.h"
#include "core/families/sdxl/sdxl.h"
#include "core/passes/pipeline.h"
#include "core/pipeline/graphs/step_graph.h"
#include "tests/core/pipeline/control_net_folder.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::Graph;

constexpr StepShape kStep = {.rows = 2, .height = 16, .width = 24};
constexpr int64_t kLatentValues = 2 * 4 * 16 * 24;

families::ModelConfigs DemoConfigs() {
  const auto checkpoint = weights::Checkpoint::Open({testing::kDemoBase}).value();
  return families::ReadModelConfigs(families::sdxl::kBase, checkpoint).value();
}

// The step part in bf16, as backends run it whose images have channels last.
Graph ChannelsLastGraph(const absl::StatusOr<Graph>& whole) {
  graph::Target target;
  target.image_layout = graph::Layout::kNhwc;
  const auto split = compiler::SplitInPrecision(whole.value(), graph::Precision{DType::kBF16});
  return passes::RunPasses(split.value().step, target).value();
}

int64_t LargestTransposed(const Graph& graph) {
  int64_t largest = 0;
  for (const graph::ValueId id : graph.Select(graph::Op::kPermute)) {
    largest = std::max(largest, graph.node(id).shape.elements());
  }
  return largest;
}

// Every residual has more elements than the latents, which are as schedulers want them.
TEST(ControlGraphTest, NoResidualIsTransposedOnItsWay) {
  const families::ModelConfigs configs = DemoConfigs();
  const auto net =
      networks::ParseControlNetConfig(ControlNetFolder::Config().dump(), "config.json").value();
  const auto ports = ResidualPorts(configs.unet, kStep.height, kStep.width, DType::kBF16);
  for (const RowPort& port : ports) EXPECT_GT(kStep.rows * port.row.elements(), kLatentValues);
  const Graph control =
      ChannelsLastGraph(MakeControlGraph(families::sdxl::kBase, configs, net, kStep, DType::kBF16));
  EXPECT_LE(LargestTransposed(control), kLatentValues);
  const Graph step =
      ChannelsLastGraph(MakeStepGraph(families::sdxl::kBase, configs, kStep, DType::kBF16));
  EXPECT_LE(LargestTransposed(step), kLatentValues);
}

TEST(ControlGraphTest, AHintHasChannelsLastAsItIsRead) {
  const auto net =
      networks::ParseControlNetConfig(ControlNetFolder::Config().dump(), "config.json").value();
  const Graph hint = ChannelsLastGraph(MakeHintGraph(net, kStep.height, kStep.width, DType::kBF16));
  EXPECT_EQ(LargestTransposed(hint), 0);
  EXPECT_EQ(hint.node(hint.outputs().front().value).shape,
            graph::Shape({1, kStep.height, kStep.width, net.unet.blocks.front().channels}));
}

}  // namespace
}  // namespace latentd::pipeline
