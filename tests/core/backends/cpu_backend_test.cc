#include "core/backends/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "core/backends/cpu/cpu_executable.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/backends/heap_requests.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Layout;
using graph::Rate;
using graph::Value;
using ::testing::HasSubstr;
using testing::StatusIs;

using GraphPointer = std::shared_ptr<const graph::Graph>;

GraphPointer Built(GraphBuilder b) {
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

// A residual block: norm, convolution, shortcut, and a linear layer at the end. `side` changes the
// shape and none of the weights.
GraphPointer Block(int64_t side) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, side, side, 16}, Rate::kStep);
  const Value gamma = b.Weight("net/gamma", {16}), beta = b.Weight("net/beta", {16});
  const Value normed = b.Silu(b.GroupNorm(x, gamma, beta, {8, 1e-5f, Layout::kNhwc}));
  const Value conv = b.Conv2d(normed, b.Weight("net/conv.weight", {16, 16, 3, 3}), graph::kNone,
                              {.padding = {1, 1, 1, 1}, .layout = Layout::kNhwc});
  const Value tokens = b.Reshape(b.Add(conv, x), {1, side * side, 16});
  b.Output("y", b.Linear(tokens, b.Weight("net/linear.weight", {32, 16})));
  return Built(std::move(b));
}

class CpuBackendTest : public ::testing::Test {
 protected:
  void SetUp() override { set_.Add("net", testing::RandomLeaves(*Block(8), /*seed=*/5).weights); }

  absl::StatusOr<std::unique_ptr<Executable>> Load(GraphPointer graph) {
    const auto plan = backend_->MakePlan(*graph);
    if (!plan.ok()) return plan.status();
    return backend_->Load(std::move(graph), *plan, set_);
  }

  const std::unique_ptr<CpuBackend> backend_ = CpuBackend::Create({.threads = 2}).value();
  weights::WeightStore store_{*backend_};
  weights::WeightSet set_{&store_};
};

TEST_F(CpuBackendTest, PlansTheSameGraphTheSameWay) {
  ASSERT_OK_AND_ASSIGN(const Plan first, backend_->MakePlan(*Block(8)));
  ASSERT_OK_AND_ASSIGN(const Plan second, backend_->MakePlan(*Block(8)));
  EXPECT_EQ(first, second);
}

TEST_F(CpuBackendTest, NamesInstructionSetThreadsAndLibrariesInItsFingerprint) {
  ASSERT_OK_AND_ASSIGN(const auto other, CpuBackend::Create({.threads = 17}));
  EXPECT_THAT(other->Fingerprint(), HasSubstr("threads-17"));
  EXPECT_THAT(other->Fingerprint(), HasSubstr("onednn-2."));
  EXPECT_THAT(other->Fingerprint(), HasSubstr(KernelsOfThisMachine().name));
  EXPECT_NE(other->Fingerprint(), backend_->Fingerprint());
}

TEST_F(CpuBackendTest, HoldsNothingForAPlanAndWhatThePlanSaysForAnExecutable) {
  const GraphPointer graph = Block(8);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  ASSERT_OK_AND_ASSIGN(const MemoryNeeds needs, NeedsOf(*graph, plan, set_));
  EXPECT_OK(backend_->CheckPlan(*graph, plan));
  EXPECT_EQ(store_.entries(), 0u);
  EXPECT_EQ(backend_->arena_bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const auto executable, backend_->Load(graph, plan, set_));
  EXPECT_EQ(needs.arena_bytes, executable->info().arena_bytes);
  EXPECT_EQ(needs.executable_bytes, executable->info().own_bytes);
  EXPECT_EQ(needs.weights.size(), store_.entries());
}

// Admission believes what a plan says: one that says less than it takes must not be loaded.
TEST_F(CpuBackendTest, RefusesAPlanThatSaysThatItNeedsOtherMemory) {
  const GraphPointer graph = Block(8);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  ASSERT_FALSE(plan.weights.empty());
  std::vector<Plan> others(6, plan);
  --others[0].arena_bytes;
  --others[1].executable_bytes;
  others[2].weights.pop_back();
  --others[3].weights[0].bytes;
  ++others[4].weights[0].recipe;
  others[5].weights[0].form += "x";
  for (const Plan& other : others) {
    EXPECT_THAT(backend_->Load(graph, other, set_),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
    EXPECT_THAT(backend_->CheckPlan(*graph, other),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  }
  EXPECT_EQ(store_.entries(), 0u);
}

TEST_F(CpuBackendTest, RefusesAnInstructionSetThatThereIsNot) {
  EXPECT_THAT(CpuBackend::Create({.instruction_set = "avx1024"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("avx1024")));
}

TEST_F(CpuBackendTest, RefusesEveryCutOffPlan) {
  const GraphPointer graph = Block(8);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  Plan other = plan;
  for (size_t size = 0; size < plan.bytes.size(); ++size) {
    other.bytes = plan.bytes.substr(0, size);
    EXPECT_THAT(backend_->Load(graph, other, set_),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  }
  other.bytes = plan.bytes + '\0';
  EXPECT_THAT(backend_->Load(graph, other, set_),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
}

TEST_F(CpuBackendTest, RefusesThePlanOfAnotherShape) {
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*Block(8)));
  EXPECT_THAT(backend_->Load(Block(24), plan, set_),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
}

// A changed plan is refused or still computes the same: nothing in it can put two living values
// into one place.
TEST_F(CpuBackendTest, ComputesTheSameOrRefusesWhateverAPlanSays) {
  const GraphPointer graph = Block(8);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  const testing::Inputs inputs = testing::RandomLeaves(*graph, /*seed=*/6).inputs;
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(graph));
  ASSERT_OK_AND_ASSIGN(const auto expected, testing::RunExecutable(*executable, inputs));
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    Plan changed = plan;
    changed.bytes[random() % changed.bytes.size()] ^= static_cast<char>(1 << random() % 8);
    const auto loaded = backend_->Load(graph, changed, set_);
    refused += !loaded.ok();
    if (!loaded.ok()) continue;
    ASSERT_OK_AND_ASSIGN(const auto outputs, testing::RunExecutable(**loaded, inputs));
    for (int64_t k = 0; k < outputs[0].elements(); ++k) {
      ASSERT_NEAR(outputs[0].as<float>()[k], expected[0].as<float>()[k], 1e-4);
    }
  }
  EXPECT_GT(refused, 200);
}

// Each computes with its own weights, whichever ran before.
TEST_F(CpuBackendTest, BindsOnceForAllWeightsOfAGraphAndPlan) {
  const GraphPointer graph = Block(8);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  weights::WeightSet others(&store_);
  others.Add("net", testing::RandomLeaves(*graph, /*seed=*/8).weights);
  const testing::Inputs inputs = testing::RandomLeaves(*graph, /*seed=*/6).inputs;
  const auto run = [&](Executable& executable) {
    return testing::ToDoubles(testing::RunExecutable(executable, inputs).value()[0]);
  };
  std::vector<double> wanted;
  {
    ASSERT_OK_AND_ASSIGN(const auto alone, backend_->Load(graph, plan, others));
    wanted = run(*alone);
  }
  ASSERT_OK_AND_ASSIGN(auto first, backend_->Load(graph, plan, set_));
  ASSERT_OK_AND_ASSIGN(const auto second, backend_->Load(graph, plan, others));
  const auto program = [](const std::unique_ptr<Executable>& executable) {
    return &static_cast<const CpuExecutable&>(*executable).program();
  };
  EXPECT_EQ(program(first), program(second));
  const std::vector<double> of_first = run(*first);
  EXPECT_NE(of_first, wanted);
  EXPECT_EQ(run(*second), wanted);
  EXPECT_EQ(run(*first), of_first);
  ASSERT_OK_AND_ASSIGN(const auto equal, backend_->Load(Block(8), plan, set_));
  EXPECT_NE(program(equal), program(first));  // it may point to constants of its own graph
  first.reset();
  EXPECT_EQ(run(*second), wanted);
}

TEST_F(CpuBackendTest, HoldsAWeightOfSeveralShapesOnceAndPackedOnly) {
  ASSERT_OK_AND_ASSIGN(const auto small, Load(Block(4)));
  const size_t bytes = store_.bytes_held(), entries = store_.entries();
  EXPECT_EQ(entries, 4u);  // gamma, beta, convolution, linear
  ASSERT_OK_AND_ASSIGN(const auto large, Load(Block(8)));
  EXPECT_EQ(store_.bytes_held(), bytes);
  EXPECT_EQ(store_.entries(), entries);
}

// algorithms.h: large images are convolved in another way, all in the same one.
TEST_F(CpuBackendTest, HoldsAWeightInOneMoreFormForLargeImages) {
  ASSERT_OK_AND_ASSIGN(const auto small, Load(Block(8)));
  ASSERT_OK_AND_ASSIGN(const auto large, Load(Block(64)));
  EXPECT_EQ(store_.entries(), 5u);
  ASSERT_OK_AND_ASSIGN(const auto larger, Load(Block(96)));
  EXPECT_EQ(store_.entries(), 5u);
}

TEST_F(CpuBackendTest, GivesWeightsBackWithTheLastExecutable) {
  {
    ASSERT_OK_AND_ASSIGN(const auto executable, Load(Block(8)));
    EXPECT_GT(store_.bytes_held(), 0u);
  }
  EXPECT_EQ(store_.bytes_held(), 0u);
}

TEST_F(CpuBackendTest, SharesOneArenaAsLargeAsTheLargestExecutableNeeds) {
  ASSERT_OK_AND_ASSIGN(auto large, Load(Block(32)));
  ASSERT_OK_AND_ASSIGN(const auto small, Load(Block(8)));
  EXPECT_EQ(backend_->arena_bytes(), large->info().arena_bytes);
  EXPECT_LT(small->info().arena_bytes, large->info().arena_bytes);
  large.reset();
  EXPECT_EQ(backend_->arena_bytes(), small->info().arena_bytes);
}

TEST_F(CpuBackendTest, ComputesTheSameAfterAnotherGraphHasGrownTheArena) {
  const testing::Inputs inputs = testing::RandomLeaves(*Block(8), /*seed=*/6).inputs;
  ASSERT_OK_AND_ASSIGN(const auto small, Load(Block(8)));
  ASSERT_OK_AND_ASSIGN(const auto before, testing::RunExecutable(*small, inputs));
  {
    ASSERT_OK_AND_ASSIGN(const auto large, Load(Block(64)));
    ASSERT_OK(testing::RunExecutable(*large, testing::RandomLeaves(*Block(64), 6).inputs));
  }
  ASSERT_OK_AND_ASSIGN(const auto after, testing::RunExecutable(*small, inputs));
  EXPECT_EQ(std::memcmp(before[0].data(), after[0].data(), before[0].bytes()), 0);
}

TEST_F(CpuBackendTest, RunsOnAnyThreadWhateverItsNumberOfOpenMpThreads) {
  const testing::Inputs inputs = testing::RandomLeaves(*Block(16), /*seed=*/6).inputs;
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(Block(16)));
  ASSERT_OK_AND_ASSIGN(const auto here, testing::RunExecutable(*executable, inputs));
  absl::StatusOr<std::vector<Buffer>> there;
  std::thread([&] { there = testing::RunExecutable(*executable, inputs); }).join();
  ASSERT_OK(there);
  EXPECT_EQ(std::memcmp(here[0].data(), (*there)[0].data(), here[0].bytes()), 0);
}

// Two graphs that use the same bytes of the arena run over and over beside each other, while a
// third thread loads and drops one that makes the arena grow and shrink.
TEST_F(CpuBackendTest, RunsOfSeveralThreadsWaitForEachOtherWhileTheArenaChanges) {
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<testing::Inputs> inputs;
  std::vector<std::vector<Buffer>> expected;
  for (int64_t side : {16, 24}) {
    ASSERT_OK_AND_ASSIGN(executables.emplace_back(), Load(Block(side)));
    inputs.push_back(testing::RandomLeaves(*Block(side), /*seed=*/6).inputs);
    ASSERT_OK_AND_ASSIGN(expected.emplace_back(),
                         testing::RunExecutable(*executables.back(), inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t which : {0, 1, 0}) {
    threads.emplace_back([&, which] {
      for (int round = 0; round < kRounds; ++round) {
        const auto outputs = testing::RunExecutable(*executables[which], inputs[which]);
        const Buffer& wanted = expected[which][0];
        if (!outputs.ok() ||
            std::memcmp((*outputs)[0].data(), wanted.data(), wanted.bytes()) != 0) {
          ++wrong;
        }
      }
    });
  }
  threads.emplace_back([&] {
    for (int round = 0; round < kRounds / 10; ++round) wrong += !Load(Block(128)).ok();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CpuBackendTest, WritesOnlyItsOutputs) {
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(Block(8)));
  const testing::Inputs inputs = testing::RandomLeaves(*Block(8), /*seed=*/6).inputs;
  const std::vector<float> before(inputs[0].as<float>().begin(), inputs[0].as<float>().end());
  ASSERT_OK(testing::RunExecutable(*executable, inputs));
  EXPECT_THAT(inputs[0].as<float>(), ::testing::ElementsAreArray(before));
}

TEST_F(CpuBackendTest, NamesACastThatItDoesNotMake) {
  GraphBuilder b;
  b.Output("y", b.Cast(b.Input("x", DType::kF16, {4}, Rate::kStep), DType::kU8));
  EXPECT_THAT(backend_->MakePlan(*Built(std::move(b))),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("cast to u8")));
}

TEST_F(CpuBackendTest, NamesAMissingWeight) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  b.Output("y", b.Linear(x, b.Weight("net/absent.weight", {4, 3})));
  EXPECT_THAT(Load(Built(std::move(b))),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("net/absent.weight")));
}

TEST_F(CpuBackendTest, RefusesWhatCannotFitIntoTheMachine) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1}, Rate::kStep);
  const Value wide = b.Add(x, b.Input("y", DType::kF32, {1, int64_t{1} << 20, 1}, Rate::kStep));
  const Value huge = b.Mul(wide, b.Input("z", DType::kF32, {int64_t{1} << 18, 1, 1}, Rate::kStep));
  b.Output("s", b.Slice(b.Silu(huge), 0, 0, 1));
  EXPECT_THAT(Load(Built(std::move(b))),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes")));
}

TEST_F(CpuBackendTest, KeepsNonFiniteValues) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 4, 4, 16}, Rate::kStep);
  b.Output("silu", b.Silu(x));
  b.Output("softmax", b.Softmax(x));
  b.Output("gelu", b.Gelu(x));
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(Built(std::move(b))));
  Buffer input = Buffer::Allocate(DType::kF32, {1, 4, 4, 16});
  input.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_OK_AND_ASSIGN(const auto outputs, testing::RunExecutable(*executable, {input}));
  for (const Buffer& output : outputs) EXPECT_TRUE(std::isnan(output.as<float>()[3]));
}

TEST(CpuBackendHeap, CountsWhatIsAskedFor) {
  if (!testing::HeapRequests::Counted()) GTEST_SKIP() << "a sanitizer has its own malloc";
  const testing::HeapRequests requests(4096);
  const Buffer small = Buffer::Allocate(DType::kF32, {8});
  EXPECT_EQ(requests.count(), 0);
  const Buffer large = Buffer::Allocate(DType::kF32, {1024});
  EXPECT_EQ(requests.count(), 1);
  EXPECT_EQ(requests.largest(), 4096u);
}

TEST(CpuBackendHeap, NoOpAsksForAPageWhileItRuns) {
  if (!testing::HeapRequests::Counted()) GTEST_SKIP() << "a sanitizer has its own malloc";
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create());
  for (const testing::OpCase& c : testing::CasesWithoutF8()) {
    GraphBuilder b;
    c.build(b);
    const GraphPointer graph = Built(std::move(b));
    const testing::Leaves leaves = testing::RandomLeaves(*graph, /*seed=*/3);
    weights::WeightStore store(*backend);
    weights::WeightSet set(&store);
    set.Add("net", leaves.weights);
    ASSERT_OK_AND_ASSIGN(const Plan plan, backend->MakePlan(*graph));
    ASSERT_OK_AND_ASSIGN(const auto executable, backend->Load(graph, plan, set));
    const auto outputs = testing::OutputsOnHost(*executable, leaves.inputs);
    ASSERT_OK_AND_ASSIGN(const auto session,
                         testing::BindOnHost(*executable, leaves.inputs, outputs));
    ASSERT_OK(testing::RunSession(*session, backend->device()));
    const testing::HeapRequests requests(4096);
    ASSERT_OK(testing::RunSession(*session, backend->device()));
    EXPECT_EQ(requests.count(), 0) << c.name << " asked for " << requests.largest() << " bytes";
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
