// scheduler_step: in place, without noise, and the same bits on every backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/graph_builder.h"
#include "core/schedulers/schedule.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/on_host.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr int64_t kRows = 3, kElements = 4 * 37 * 41;
constexpr int64_t kLine = schedulers::kLineElements, kCombined = schedulers::kCombined;

static_assert(kLine == graph::SchedulerLine::kElements);
static_assert(schedulers::kLineDrawsNoise == graph::SchedulerLine::kDrawsNoise);
static_assert(schedulers::kLineMatrix == graph::SchedulerLine::kMatrix);
static_assert(schedulers::kStateRows == graph::SchedulerLine::kStates);

struct StepInputs {
  Value state, output, noise, line;
};

StepInputs Declare(GraphBuilder& b) {
  const auto input = [&](const char* name, const Shape& shape) {
    return b.Input(name, DType::kF32, shape, Rate::kStep);
  };
  const Shape latents{kRows, kElements};
  return {input("state", {kRows, 4, kElements}), input("output", latents), input("noise", latents),
          input("line", {kRows, kLine})};
}

std::shared_ptr<const graph::Graph> ByOp() {
  GraphBuilder b;
  const StepInputs in = Declare(b);
  b.Output("state", b.SchedulerStep(in.state, in.output, in.noise, in.line));
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

// S' = M [S, output, noise] as a product of matrices.
std::shared_ptr<const graph::Graph> ByMatmul() {
  GraphBuilder b;
  const StepInputs in = Declare(b);
  const Value matrix = b.Reshape(b.Slice(in.line, 1, 3, kLine), {kRows, 4, kCombined});
  const Value combined = b.Concat({in.state, b.Reshape(in.output, {kRows, 1, kElements}),
                                   b.Reshape(in.noise, {kRows, 1, kElements})},
                                  1);
  b.Output("state", b.Matmul(matrix, combined));
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

// Every row draws noise.
std::vector<Buffer> Inputs(unsigned seed) {
  std::vector<Buffer> inputs;
  for (const device::ConstBuffer& input : testing::RandomLeaves(*ByOp(), seed).inputs) {
    inputs.push_back(testing::OnHost(input));
  }
  for (int64_t row = 0; row < kRows; ++row) {
    inputs[3].Rows(row, row + 1).as<float>()[schedulers::kLineDrawsNoise] = 1;
  }
  return inputs;
}

Buffer NextState(Backend& backend, const std::shared_ptr<const graph::Graph>& graph,
                 const std::vector<Buffer>& inputs) {
  weights::WeightStore store(backend);
  const auto outputs =
      testing::RunGraph(backend, graph, weights::WeightSet(&store), {inputs.begin(), inputs.end()});
  EXPECT_OK(outputs);
  return outputs.value().front();
}

bool SameBits(const Buffer& a, const Buffer& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

std::vector<std::unique_ptr<Backend>> Backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<reference::ReferenceBackend>());
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (cpu::KernelsByName(name) == nullptr) continue;
    backends.push_back(cpu::CpuBackend::Create({.instruction_set = name}).value());
  }
  return backends;
}

TEST(SchedulerStep, IsTheSameOnEveryBackend) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const std::vector<Buffer> inputs = Inputs(seed);
    reference::ReferenceBackend reference;
    const Buffer expected = NextState(reference, ByOp(), inputs);
    int i = 0;
    for (const auto& backend : Backends()) {
      EXPECT_TRUE(SameBits(NextState(*backend, ByOp(), inputs), expected)) << i++;
    }
  }
}

TEST(SchedulerStep, IsTheProductOfMatrices) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const std::vector<Buffer> inputs = Inputs(seed);
    int i = 0;
    for (const auto& backend : Backends()) {
      const Buffer state = NextState(*backend, ByOp(), inputs);
      const Buffer product = NextState(*backend, ByMatmul(), inputs);
      // Not to the bit: in which order a library adds up a product is up to the processor.
      EXPECT_THAT(testing::ToDoubles(state),
                  Pointwise(DoubleNear(1e-4), testing::ToDoubles(product)))
          << i++;
    }
  }
}

TEST(SchedulerStep, ReadsNoNoiseThatItsLineDoesNotDraw) {
  std::vector<Buffer> inputs = Inputs(1);
  inputs[3].Rows(1, 2).as<float>()[schedulers::kLineDrawsNoise] = 0;
  for (float& noise : inputs[2].Rows(1, 2).as<float>()) noise = 0;
  for (const auto& backend : Backends()) {
    const Buffer expected = NextState(*backend, ByOp(), inputs);
    std::vector<Buffer> stale = inputs;
    stale[2] = Buffer::Allocate(DType::kF32, inputs[2].shape());
    std::memcpy(stale[2].data(), inputs[2].data(), inputs[2].bytes());
    for (float& noise : stale[2].Rows(1, 2).as<float>()) noise = NAN;
    EXPECT_TRUE(SameBits(NextState(*backend, ByOp(), stale), expected));
  }
}

TEST(SchedulerStep, MayWriteOverTheStateThatItReads) {
  const std::vector<Buffer> inputs = Inputs(1);
  reference::ReferenceBackend reference;
  const Buffer expected = NextState(reference, ByOp(), inputs);
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    const cpu::KernelTable* kernels = cpu::KernelsByName(name);
    if (kernels == nullptr) continue;
    Buffer state = Buffer::Allocate(DType::kF32, inputs[0].shape());
    std::memcpy(state.data(), inputs[0].data(), state.bytes());
    kernels->scheduler_step({.state = state.as<float>().data(),
                             .output = inputs[1].as<float>().data(),
                             .noise = inputs[2].as<float>().data(),
                             .line = inputs[3].as<float>().data(),
                             .next = state.as<float>().data(),
                             .rows = kRows,
                             .elements = kElements});
    EXPECT_TRUE(SameBits(state, expected)) << name;
  }
}

}  // namespace
}  // namespace latentd::backends
