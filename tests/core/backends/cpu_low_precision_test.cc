// Graphs of bf16 and f16 on the CPU backend: their programs, the memory that they hold, and its
// prediction. Their results: tests/conformance/low_precision_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/lowering/lowering.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/low_precision.h"
#include "tests/core/backends/heap_requests.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Layout;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;

constexpr DType kLow[] = {DType::kBF16, DType::kF16};

graph::Graph In(DType dtype, GraphBuilder b) {
  return testing::InDType(std::move(b).Build().value(), dtype);
}

std::vector<Kernel> Kernels(DType dtype, GraphBuilder b, const char* instruction_set) {
  const graph::Graph graph = In(dtype, std::move(b));
  const Machine machine = {KernelsByName(instruction_set), 1};
  std::vector<Kernel> kernels;
  for (const Instruction& i :
       lowering::Lower(graph, graph::ExtractRecipes(graph), CpuKernelRules(machine)).instructions) {
    kernels.push_back(i.kernel);
  }
  return kernels;
}

GraphBuilder NormAndLinear() {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 4, 4, 64}, Rate::kStep);
  const Value gamma = b.Weight("net/gamma", {64}), beta = b.Weight("net/beta", {64});
  const Value normed = b.GroupNorm(x, gamma, beta, {8, 1e-5f, Layout::kNhwc});
  b.Output("y", b.Linear(normed, b.Weight("net/weight", {128, 64}), b.Weight("net/bias", {128})));
  return b;
}

TEST(LowerLowPrecision, LeavesValuesThatKernelsReadAsTheyAre) {
  if (!MultipliesInBf16({&KernelsOfThisMachine(), 1})) GTEST_SKIP() << "no products of bf16 here";
  EXPECT_THAT(Kernels(DType::kBF16, NormAndLinear(), "avx512"),
              ElementsAre(Kernel::kGroupNorm, Kernel::kLinear));
}

TEST(LowerLowPrecision, ConvertsAroundWhatIsComputedInF32) {
  EXPECT_THAT(Kernels(DType::kBF16, NormAndLinear(), "baseline"),
              ElementsAre(Kernel::kGroupNorm, Kernel::kCast, Kernel::kLinear, Kernel::kCast));
  EXPECT_THAT(Kernels(DType::kF16, NormAndLinear(), "baseline"),
              ElementsAre(Kernel::kCast, Kernel::kGroupNorm, Kernel::kCast, Kernel::kCast,
                          Kernel::kLinear, Kernel::kCast));
}

TEST(LowerLowPrecision, ConvertsAValueOnceForAllItsReaders) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 6}, Rate::kStep);
  b.Output("softmax", b.Softmax(x));
  b.Output("reshaped", b.Softmax(b.Reshape(x, {3, 4})));
  EXPECT_THAT(
      Kernels(DType::kBF16, std::move(b), "baseline"),
      ElementsAre(Kernel::kCast, Kernel::kSoftmax, Kernel::kCast, Kernel::kSoftmax, Kernel::kCast));
}

TEST(LowerLowPrecision, MovesValuesWithoutConvertingThem) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 2, 2, 3}, Rate::kStep);
  const Value large = b.UpsampleNearest(x, 4, 4, Layout::kNhwc);
  b.Output("y", b.Concat({b.Permute(large, {0, 2, 1, 3}), large}, 3));
  EXPECT_THAT(Kernels(DType::kF16, std::move(b), "baseline"),
              ElementsAre(Kernel::kUpsample, Kernel::kCopy, Kernel::kCopy));
}

// A graph with a weight set of its own.
struct Loaded {
  std::shared_ptr<const graph::Graph> graph;
  testing::Leaves leaves;
  weights::WeightStore store;
  weights::WeightSet set{&store};

  Loaded(Backend& backend, graph::Graph g)
      : graph(std::make_shared<const graph::Graph>(std::move(g))),
        leaves(testing::RandomLeaves(*graph, /*seed=*/5)),
        store(backend) {
    set.Add("net", leaves.weights);
  }
};

TEST(CpuLowPrecision, HoldsWhatItMultipliesInHalfTheMemory) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  const bool multiplies = MultipliesInBf16({&KernelsOfThisMachine(), 1});
  std::map<DType, size_t> held;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Loaded loaded(*backend, In(dtype, NormAndLinear()));
    ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*loaded.graph));
    ASSERT_OK_AND_ASSIGN(const auto executable, backend->Load(loaded.graph, plan, loaded.set));
    held[dtype] = loaded.store.bytes_held();
  }
  const size_t weight = 128 * 64 * sizeof(float);
  EXPECT_EQ(held[DType::kF32] - held[DType::kBF16], multiplies ? weight / 2 : 0);
}

TEST(CpuLowPrecision, MemoryOfEveryOpIsPredictedToTheByte) {
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  for (const testing::OpCase& c : testing::CasesOfEveryDType()) {
    for (DType dtype : kLow) {
      SCOPED_TRACE(c.name);
      GraphBuilder b;
      c.build(b);
      Loaded loaded(*backend, In(dtype, std::move(b)));
      ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*loaded.graph));
      ASSERT_OK_AND_ASSIGN(const MemoryNeeds needs, NeedsOf(*loaded.graph, plan, loaded.set));
      EXPECT_EQ(loaded.store.bytes_held(), 0u);
      ASSERT_OK_AND_ASSIGN(const auto executable, backend->Load(loaded.graph, plan, loaded.set));
      std::map<std::string, size_t> held;
      for (const weights::WeightInfo& r : loaded.store.List()) held[r.key] = r.bytes;
      EXPECT_EQ(needs.weights, held);
      EXPECT_EQ(needs.arena_bytes, executable->info().arena_bytes);
      EXPECT_EQ(needs.executable_bytes, executable->info().own_bytes);
    }
  }
}

TEST(CpuLowPrecision, NoOpAsksForAPageWhileItRuns) {
  if (!testing::HeapRequests::Counted()) GTEST_SKIP() << "a sanitizer has its own malloc";
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  for (const testing::OpCase& c : testing::CasesOfEveryDType()) {
    for (DType dtype : kLow) {
      GraphBuilder b;
      c.build(b);
      Loaded loaded(*backend, In(dtype, std::move(b)));
      ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*loaded.graph));
      ASSERT_OK_AND_ASSIGN(const auto executable, backend->Load(loaded.graph, plan, loaded.set));
      const auto outputs = testing::OutputsOnHost(*executable, loaded.leaves.inputs);
      ASSERT_OK_AND_ASSIGN(const auto session,
                           testing::BindOnHost(*executable, loaded.leaves.inputs, outputs));
      ASSERT_OK(testing::RunSession(*session, backend->device()));
      const testing::HeapRequests requests(4096);
      ASSERT_OK(testing::RunSession(*session, backend->device()));
      EXPECT_EQ(requests.count(), 0) << c.name << " asked for " << requests.largest() << " bytes";
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
