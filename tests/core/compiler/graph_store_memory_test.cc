// Memory of the graph store, its users, and eviction.
#include "core/base/errors/out_of_memory.h"
#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

class GraphStoreMemoryTest : public GraphStoreFixture {
 protected:
  // Bytes of one of the store's graphs: executable and artifact.
  size_t BytesOfOne() {
    Process process(backend, clock, "");
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
    EXPECT_OK(process->Get(graph));
    return process->totals().executable_bytes + process->totals().artifact_bytes;
  }
  bool IsReady(Process& process, const GraphHandle& graph) {
    return process->Find(GraphStore::IdOf(graph))->state == GraphState::kReady;
  }
};

TEST_F(GraphStoreMemoryTest, PredictsWithoutLoading) {
  Process process(backend, clock, "");
  backend.arena_bytes = 7;
  backend.executable_bytes = 8;
  const GraphHandle graph = process->Declare(WantedWith(Weights(4, 1), "base"));
  ASSERT_OK_AND_ASSIGN(const backends::MemoryNeeds needs, process->Predict(graph));
  EXPECT_EQ(needs.arena_bytes, 7u);
  EXPECT_EQ(needs.executable_bytes, 8u);
  ASSERT_THAT(needs.weights, SizeIs(1));
  EXPECT_EQ(needs.weights.begin()->second, 4 * sizeof(float));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 0);
  ASSERT_OK(process->Predict(graph));
  EXPECT_EQ(backend.plans, 1);  // it remembers
}

// A prediction's compilation counts as one once a user asks for the graph, and not before.
TEST_F(GraphStoreMemoryTest, WhatAPredictionCompiledIsTakenByWhoMayCompile) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Predict(graph));
  EXPECT_EQ(process->totals().compilations, 0);
  EXPECT_GT(process->totals().artifact_bytes, 0);
  EXPECT_EQ(process.Only().state, GraphState::kCold);
  EXPECT_EQ(process.Only().disk_bytes, 0);
  EXPECT_THAT(process->Get(graph, kLoadOnly), HasReason("GRAPH_COLD"));
  EXPECT_THAT(process->Save(process.Only().id), HasReason("NOT_COMPILED"));

  ASSERT_OK(process->Get(graph, {GetMode::kCompile, Reason::kWarm}));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process->totals().compilations, 1);
  EXPECT_EQ(process.Count(metrics::kGraphCompilations, {"base", "part", "warm"}), 1);
  EXPECT_EQ(process.Durations("compile"), 1u);
  EXPECT_GT(process.Only().disk_bytes, 0);
}

TEST_F(GraphStoreMemoryTest, WhatAPredictionCompiledIsNotToBeHadInStrictMode) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Predict(graph));
  process->ForbidCompiling();
  EXPECT_THAT(process->Get(graph), HasReason("COMPILE_FORBIDDEN"));
}

TEST_F(GraphStoreMemoryTest, WhatIsToDisplaceNothingIsRefusedWhereTheBudgetIsFull) {
  Process process(backend, clock, "", {.memory_budget = BytesOfOne()});
  const GraphHandle first = process->Declare(Wanted(SiluGraph(1)));
  const GraphHandle second = process->Declare(Wanted(SiluGraph(2)));
  ASSERT_OK(process->Get(first, {.displaces_nothing = true}));
  EXPECT_THAT(process->Get(second, {.displaces_nothing = true}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--graph-memory")));
  EXPECT_TRUE(IsReady(process, first));
  EXPECT_EQ(process->Find(GraphStore::IdOf(second))->state, GraphState::kFailed);
  ASSERT_OK(process->Get(second));
  EXPECT_FALSE(IsReady(process, first));
}

TEST_F(GraphStoreMemoryTest, WhatPredictionsCompiledIsBoundedAndGoesWithTheGraph) {
  Process process(backend, clock, "", {.memory_budget = 2 * BytesOfOne()});
  std::vector<GraphHandle> graphs;
  for (int64_t size = 1; size <= 20; ++size) {
    graphs.push_back(process->Declare(Wanted(SiluGraph(size))));
    ASSERT_OK(process->Predict(graphs.back()));
    EXPECT_LE(process->totals().artifact_bytes, static_cast<int64_t>(2 * BytesOfOne()));
  }
  graphs.clear();
  process->DropUnused();
  EXPECT_EQ(process->totals().artifact_bytes, 0);
  EXPECT_EQ(process->totals().definition_bytes, 0);
}

TEST_F(GraphStoreMemoryTest, PredictionsPushOutNothingThatIsLoaded) {
  Process process(backend, clock, "", {.memory_budget = BytesOfOne()});
  const GraphHandle loaded = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Get(loaded));
  std::vector<GraphHandle> asked;
  for (int64_t size = 2; size <= 5; ++size) {
    asked.push_back(process->Declare(Wanted(SiluGraph(size))));
    ASSERT_OK(process->Predict(asked.back()));
    EXPECT_TRUE(IsReady(process, loaded)) << size;
  }
  EXPECT_LE(process->totals().artifact_bytes, static_cast<int64_t>(2 * BytesOfOne()));
}

TEST_F(GraphStoreMemoryTest, AFailureToCompileStandsForPredictions) {
  backend.plan_status = absl::UnimplementedError("cannot");
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(process->Predict(graph), StatusIs(absl::StatusCode::kUnimplemented, "cannot"));
  }
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreMemoryTest, PredictingReadsWhatIsOnDisk) {
  {
    Process process(backend, clock, directory.path());
    ASSERT_OK(process->Get(process->Declare(Wanted(SiluGraph(4)))));
  }
  backend.plans = 0;
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Predict(graph));
  EXPECT_EQ(backend.plans, 0);
  EXPECT_EQ(process->totals().artifact_bytes, 0);  // it is quick to read again
}

// Two graphs that read equal tensors in one form need them once.
TEST_F(GraphStoreMemoryTest, EqualNeedsOfTwoGraphsHaveOneName) {
  Process process(backend, clock, "");
  GraphSpec doubled = WantedWith(Weights(4, 1), "refiner");
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {4}, graph::Rate::kStep);
  b.Output("y", b.Silu(b.Add(x, b.Weight("part/w", {4}))));
  doubled.graph = std::make_shared<const graph::Graph>(*std::move(b).Build());
  const auto needs = [&](const GraphSpec& spec) {
    return process->Predict(process->Declare(spec)).value().weights;
  };
  const auto first = needs(WantedWith(Weights(4, 1), "base"));
  EXPECT_EQ(needs(doubled), first);
  EXPECT_NE(needs(WantedWith(Weights(4, 2), "other")), first);
}

TEST_F(GraphStoreMemoryTest, EqualWeightsShareOneExecutable) {
  Process process(backend, clock, "");
  const GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle refiner = process->Declare(WantedWith(Weights(4, 1), "refiner"));
  EXPECT_THAT(process.Only().users, ElementsAre("base", "refiner"));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, process->Get(base));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, process->Get(refiner));
  EXPECT_EQ(a, b);
  EXPECT_EQ(backend.loads, 1);
  EXPECT_EQ(process.Only().device_bytes, 100);
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "ready"}), 1);
}

TEST_F(GraphStoreMemoryTest, OtherWeightsAreAnotherExecutableOfOneEntry) {
  Process process(backend, clock, "");
  const GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle refiner = process->Declare(WantedWith(Weights(4, 2), "refiner"));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, process->Get(base));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);  // the refiner's is not loaded
  EXPECT_THAT(process->Get(refiner, kReadyOnly), HasReason("GRAPH_COLD"));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, process->Get(refiner));
  EXPECT_NE(a, b);
  EXPECT_EQ(process->totals().compilations, 1);
  EXPECT_EQ(process.Lookups("memory"), 1);
  EXPECT_EQ(process.Durations("memory_load"), 1u);
  EXPECT_EQ(process.Only().device_bytes, 200);
  EXPECT_EQ(process.Only().state, GraphState::kReady);
}

TEST_F(GraphStoreMemoryTest, WeightsThatDoNotFitAreNoFaultOfTheArtifact) {
  Process process(backend, clock, directory.path());
  const GraphHandle good = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle bad = process->Declare(WantedWith(Weights(3, 1), "refiner"));
  ASSERT_OK(process->Get(good));
  ASSERT_OK(process->Evict(GraphStore::IdOf(good), Tier::kMemory, false));
  EXPECT_THAT(process->Get(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("part/w")));
  EXPECT_OK(process->Get(good));
  EXPECT_EQ(process->totals().compilations, 1);
  EXPECT_OK(process->Verify(GraphStore::IdOf(good)));
}

TEST_F(GraphStoreMemoryTest, DeclaringTwiceIsNothingNew) {
  Process process(backend, clock, "");
  const auto weights = Weights(4, 1);
  const GraphHandle once = process->Declare(WantedWith(weights, "base"));
  ASSERT_OK(process->Get(once));
  const GraphHandle twice = process->Declare(WantedWith(weights, "base"));
  EXPECT_EQ(once, twice);
  EXPECT_OK(process->Get(twice, kReadyOnly));
  EXPECT_THAT(process.Only().users, ElementsAre("base"));
  EXPECT_EQ(backend.loads, 1);
}

// base and refiner share a VAE: letting go of one keeps the other.
TEST_F(GraphStoreMemoryTest, WhatOneUserLeavesTheOtherKeeps) {
  Process process(backend, clock, "");
  GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle refiner = process->Declare(WantedWith(Weights(4, 1), "refiner"));
  ASSERT_OK(process->Get(base));
  ASSERT_OK(process->Get(refiner));
  base.reset();
  const GraphHandle other = process->Declare(Wanted(SiluGraph(1)));
  EXPECT_THAT(process->Find(GraphStore::IdOf(refiner))->users, ElementsAre("refiner"));
  EXPECT_OK(process->Get(refiner, kReadyOnly));
  EXPECT_EQ(backend.loads, 1);
}

TEST_F(GraphStoreMemoryTest, WhatNobodyRefersToIsForgottenAtTheNextDeclare) {
  Process process(backend, clock, "");
  std::weak_ptr<const weights::WeightSet> weights;
  std::weak_ptr<backends::Executable> executable;
  {
    auto set = Weights(4, 1);
    weights = set;
    const GraphHandle graph = process->Declare(WantedWith(std::move(set), "base"));
    executable = *process->Get(graph);
    EXPECT_FALSE(weights.expired());
  }
  const GraphHandle other = process->Declare(Wanted(SiluGraph(1)));
  EXPECT_TRUE(weights.expired());
  EXPECT_TRUE(executable.expired());
  EXPECT_EQ(process.Only().id, GraphStore::IdOf(other));
  EXPECT_EQ(process->totals().executable_bytes, 0);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "ready"}), 0);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "cold"}), 1);
}

TEST_F(GraphStoreMemoryTest, APinHoldsForWhoDeclaresTheGraphAgain) {
  Process process(backend, clock, directory.path());
  GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(graph), true));
  graph.reset();
  graph = process->Declare(Wanted(SiluGraph(4)));
  const std::vector<GraphStatus> declared = process->Declared();
  ASSERT_EQ(declared.size(), 1u);
  EXPECT_TRUE(declared[0].pinned);
  EXPECT_EQ(declared[0].state, GraphState::kCompiled);
}

TEST_F(GraphStoreMemoryTest, AnExecutableGoesWithTheLastUserOfItsWeights) {
  Process process(backend, clock, "");
  GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle refiner = process->Declare(WantedWith(Weights(4, 2), "refiner"));
  std::weak_ptr<backends::Executable> gone = *process->Get(base);
  const std::weak_ptr<backends::Executable> kept = *process->Get(refiner);
  base.reset();
  const GraphHandle other = process->Declare(Wanted(SiluGraph(1)));
  EXPECT_TRUE(gone.expired());
  EXPECT_FALSE(kept.expired());
}

TEST_F(GraphStoreMemoryTest, TheLeastRecentlyUsedLeaveWhenTheBudgetIsPassed) {
  Process process(backend, clock, "", {.memory_budget = 2 * BytesOfOne()});
  const GraphHandle a = process->Declare(Wanted(SiluGraph(1)));
  const GraphHandle b = process->Declare(Wanted(SiluGraph(2)));
  const GraphHandle c = process->Declare(Wanted(SiluGraph(3)));
  ASSERT_OK(process->Get(a));
  ASSERT_OK(process->Get(b));
  ASSERT_OK(process->Get(a));  // used again
  ASSERT_OK(process->Get(c));
  EXPECT_TRUE(IsReady(process, a));
  EXPECT_FALSE(IsReady(process, b));
  EXPECT_TRUE(IsReady(process, c));
  EXPECT_EQ(process.Count(metrics::kGraphCacheEvictions, {"memory_budget"}), 1);
  EXPECT_EQ(process->Find(GraphStore::IdOf(b))->memory_bytes, 0);
}

TEST_F(GraphStoreMemoryTest, WhatIsPinnedOrInUseOrTheNewestStays) {
  Process process(backend, clock, "", {.memory_budget = 1});
  const GraphHandle pinned = process->Declare(Wanted(SiluGraph(1)));
  const GraphHandle used = process->Declare(Wanted(SiluGraph(2)));
  const GraphHandle idle = process->Declare(Wanted(SiluGraph(3)));
  const GraphHandle newest = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(pinned), true));
  ASSERT_OK(process->Get(pinned));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer held, process->Get(used));
  ASSERT_OK(process->Get(idle));
  ASSERT_OK(process->Get(newest));
  EXPECT_TRUE(IsReady(process, pinned));
  EXPECT_TRUE(IsReady(process, used));
  EXPECT_FALSE(IsReady(process, idle));
  EXPECT_TRUE(IsReady(process, newest));
}

TEST_F(GraphStoreMemoryTest, EvictsFromMemory) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  EXPECT_EQ(process.Only().state, GraphState::kCompiled);
  EXPECT_EQ(process.Only().device_bytes, 0);
  EXPECT_EQ(process.Only().memory_bytes, 0);
  EXPECT_GT(process.Only().disk_bytes, 0);
  EXPECT_EQ(process.Count(metrics::kGraphCacheEvictions, {"request"}), 1);
  EXPECT_OK(process->Get(graph, kLoadOnly));
  EXPECT_EQ(process->totals().compilations, 1);
}

TEST_F(GraphStoreMemoryTest, EvictsFromDiskAndFromBoth) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  const std::string id = GraphStore::IdOf(graph);
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->Evict(id, Tier::kDisk, false));
  EXPECT_EQ(process.Only().disk_bytes, 0);
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  ASSERT_OK(process->Save(id));
  EXPECT_GT(process.Only().disk_bytes, 0);
  ASSERT_OK(process->Evict(id, Tier::kBoth, false));
  EXPECT_EQ(process.Only().disk_bytes, 0);
  EXPECT_EQ(process.Only().state, GraphState::kCold);
}

TEST_F(GraphStoreMemoryTest, WhatIsInUseLeavesMemoryOnlyByForceAndItsHolderKeepsIt) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  const std::string id = GraphStore::IdOf(graph);
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer held, process->Get(graph));
  EXPECT_THAT(process->Evict(id, Tier::kMemory, false), HasReason("IN_USE"));
  EXPECT_THAT(process->Evict(id, Tier::kBoth, false), HasReason("IN_USE"));
  EXPECT_TRUE(process->Find(id)->in_use);
  EXPECT_OK(process->Evict(id, Tier::kDisk, false));
  EXPECT_OK(process->Evict(id, Tier::kMemory, true));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(held->inputs().size(), 1u);
  EXPECT_FALSE(process->Find(id)->in_use);
}

TEST_F(GraphStoreMemoryTest, WhatIsPinnedIsEvictedOnlyByForce) {
  Process process(backend, clock, directory.path());
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  const std::string id = GraphStore::IdOf(graph);
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->SetPinned(id, true));
  EXPECT_TRUE(process.Only().pinned);
  for (const Tier tier : {Tier::kMemory, Tier::kDisk, Tier::kBoth}) {
    EXPECT_THAT(process->Evict(id, tier, false), HasReason("PINNED"));
  }
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  EXPECT_OK(process->Evict(id, Tier::kBoth, true));
  EXPECT_EQ(process.Only().state, GraphState::kCold);
  EXPECT_FALSE(process.Only().pinned);
}

TEST_F(GraphStoreMemoryTest, LoadGivesEveryUserItsExecutable) {
  Process process(backend, clock, directory.path());
  const GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle refiner = process->Declare(WantedWith(Weights(4, 2), "refiner"));
  const std::string id = GraphStore::IdOf(base);
  EXPECT_THAT(process->Load(id), HasReason("NOT_COMPILED"));
  ASSERT_OK(process->Get(base));
  ASSERT_OK(process->Evict(id, Tier::kMemory, false));
  ASSERT_OK(process->Load(id));
  EXPECT_OK(process->Get(base, kReadyOnly));
  EXPECT_OK(process->Get(refiner, kReadyOnly));
  ASSERT_OK(process->Load(id));  // again: nothing to do
  EXPECT_EQ(backend.loads, 3);
  EXPECT_EQ(backend.plans, 1);
}

// One graph of two models, each with weights of its own. Asks for room until one has left.
class ModelEvictionTest : public GraphStoreMemoryTest {
 protected:
  GraphHandle Load(const std::string& model, float value, int64_t size = 4) {
    GraphSpec wanted = Wanted(BiasGraph(size), model);
    wanted.weights = Weights(size, value);
    GraphHandle graph = process_->Declare(wanted);
    EXPECT_OK(process_->Get(graph));
    return graph;
  }
  void MakeRoomForOne() {
    const int64_t before = process_->totals().executable_bytes;
    EXPECT_OK(process_->MakeRoom({.component = "lane"}, [&](const Eviction& leaves) {
      const bool gone = process_->totals().executable_bytes < before || leaves.executable_bytes > 0;
      return gone ? absl::OkStatus() : OutOfMemoryError("full");
    }));
  }
  GraphState StateOf(const GraphHandle& graph) { return process_->StatusOf(graph).state; }

  Process process_{backend, clock, ""};
};

TEST_F(ModelEvictionTest, OneModelsExecutableLeavesAndTheOthersStays) {
  backend.executable_bytes = 8;
  const GraphHandle base = Load("base", 1), anime = Load("anime", 2);
  ASSERT_EQ(GraphStore::IdOf(base), GraphStore::IdOf(anime));
  MakeRoomForOne();
  EXPECT_EQ(StateOf(base), GraphState::kCompiled);
  EXPECT_EQ(StateOf(anime), GraphState::kReady);
  ASSERT_OK(process_->Get(anime, kReadyOnly));
}

TEST_F(ModelEvictionTest, TheModelThatWasUsedLeastRecentlyLeavesFirst) {
  backend.executable_bytes = 8;
  const GraphHandle idle = Load("base", 1, 5), anime = Load("anime", 2), base = Load("base", 1);
  MakeRoomForOne();  // the oldest is of the model that was used last
  EXPECT_EQ(StateOf(anime), GraphState::kCompiled);
  EXPECT_EQ(StateOf(idle), GraphState::kReady);
  MakeRoomForOne();
  EXPECT_EQ(StateOf(idle), GraphState::kCompiled);
  EXPECT_EQ(StateOf(base), GraphState::kReady);
}

TEST_F(ModelEvictionTest, APinnedModelStays) {
  backend.executable_bytes = 8;
  const GraphHandle base = Load("base", 1), anime = Load("anime", 2);
  process_->SetModelPinned("base", true);
  EXPECT_TRUE(process_->IsModelPinned("base"));
  MakeRoomForOne();
  EXPECT_EQ(StateOf(base), GraphState::kReady);
  EXPECT_EQ(StateOf(anime), GraphState::kCompiled);
  EXPECT_FALSE(process_
                   ->MakeRoom({.component = "lane"},
                              [](const Eviction&) { return OutOfMemoryError("full"); })
                   .ok());
  process_->SetModelPinned("base", false);
  MakeRoomForOne();
  EXPECT_EQ(StateOf(base), GraphState::kCompiled);
}

TEST_F(ModelEvictionTest, APinnedModelStaysOverTheBudgetToo) {
  backend.executable_bytes = 8;
  Process process(backend, clock, "", {.memory_budget = 1});
  std::vector<GraphHandle> graphs;
  for (const int64_t size : {4, 5, 6}) {
    process->SetModelPinned("base", true);
    GraphSpec wanted = Wanted(SiluGraph(size), size == 4 ? "base" : "anime");
    graphs.push_back(process->Declare(wanted));
    ASSERT_OK(process->Get(graphs.back()));
  }
  EXPECT_EQ(process->StatusOf(graphs[0]).state, GraphState::kReady);
  EXPECT_NE(process->StatusOf(graphs[1]).state, GraphState::kReady);
}

TEST_F(ModelEvictionTest, KnowsWhenEachModelWasUsed) {
  const GraphHandle base = Load("base", 1);
  const absl::Time then = clock.Wall();
  clock.Advance(absl::Minutes(3));
  const GraphHandle anime = Load("anime", 2);
  EXPECT_EQ(process_->StatusOf(base).last_use, then);
  EXPECT_EQ(process_->StatusOf(anime).last_use, clock.Wall());
}

TEST_F(ModelEvictionTest, EvictingAModelKeepsTheOnlyCopyOfItsGraph) {
  const GraphHandle base = Load("base", 1);
  ASSERT_OK(process_->Evict(GraphStore::IdOf(base), Tier::kMemory, /*force=*/false, {"base"}));
  ASSERT_OK(process_->Get(base, kLoadOnly));
}

TEST_F(ModelEvictionTest, EvictingAModelLeavesWhatAnotherUses) {
  backend.executable_bytes = 8;
  const GraphHandle base = Load("base", 1), anime = Load("anime", 2), same = Load("same", 2);
  const std::string id = GraphStore::IdOf(base);
  ASSERT_OK(process_->Evict(id, Tier::kMemory, /*force=*/false, {"anime"}));
  EXPECT_EQ(StateOf(anime), GraphState::kReady);  // "same" has equal weights
  ASSERT_OK(process_->Evict(id, Tier::kMemory, /*force=*/false, {"base"}));
  EXPECT_EQ(StateOf(base), GraphState::kCompiled);
  EXPECT_EQ(StateOf(same), GraphState::kReady);
  ASSERT_OK(process_->Evict(id, Tier::kMemory, /*force=*/false, {"anime", "same"}));
  EXPECT_NE(StateOf(same), GraphState::kReady);
}

TEST_F(ModelEvictionTest, LoadsForTheModelsThatAreNamed) {
  const GraphHandle base = Load("base", 1), anime = Load("anime", 2);
  const std::string id = GraphStore::IdOf(base);
  ASSERT_OK(process_->Evict(id, Tier::kMemory, /*force=*/false, {"base"}));
  ASSERT_OK(process_->Evict(id, Tier::kMemory, /*force=*/false, {"anime"}));
  ASSERT_OK(process_->Get(base));
  ASSERT_OK(process_->Load(id, {"anime"}));
  EXPECT_EQ(StateOf(anime), GraphState::kReady);
  EXPECT_THAT(process_->Load(id, {"other"}), HasReason("NOT_SERVED"));
}

TEST_F(ModelEvictionTest, CompilesWithoutLoading) {
  const GraphHandle graph = process_->Declare(WantedWith(Weights(4, 1), "base"));
  ASSERT_OK(process_->Compile(graph, {}));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 0);
  EXPECT_EQ(StateOf(graph), GraphState::kCompiled);
  ASSERT_OK(process_->Get(graph, kLoadOnly));
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreMemoryTest, SavingWithoutADiskIsRefused) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(1)));
  ASSERT_OK(process->Get(graph));
  EXPECT_THAT(process.warnings(), IsEmpty());
  EXPECT_THAT(process->Save(GraphStore::IdOf(graph)), HasReason("NO_DISK_CACHE"));
}

}  // namespace
}  // namespace latentd::compiler
