// Declaring graphs, and getting them: once, for any number of callers.
#include "core/compiler/graph_store.h"

#include <new>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

using GraphStoreTest = GraphStoreFixture;

TEST_F(GraphStoreTest, DeclaringCompilesNothing) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  const GraphStatus info = process.Only();
  EXPECT_EQ(info.id, GraphStore::IdOf(graph));
  EXPECT_EQ(info.id.size(), 32u);
  EXPECT_EQ(info.label.component, "part");
  EXPECT_THAT(info.users, ElementsAre("base"));
  EXPECT_EQ(info.state, GraphState::kCold);
  EXPECT_EQ(info.key, KeyOf(SiluGraph(4), backend, {}));
  EXPECT_EQ(info.last_use, absl::InfinitePast());
  EXPECT_EQ(backend.plans, 0);
}

TEST_F(GraphStoreTest, CompilesOnceAndGivesTheSameExecutableAgain) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, process->Get(graph));
  clock.Advance(absl::Seconds(5));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, process->Get(graph));
  EXPECT_EQ(a, b);
  const GraphStore::Totals totals = process->totals();
  EXPECT_EQ(totals.compilations, 1);
  EXPECT_EQ(totals.loads, 1);
  EXPECT_EQ(totals.hits, 1);
  EXPECT_EQ(totals.executable_bytes, 100);
  EXPECT_GT(totals.artifact_bytes, 0);
  const GraphStatus info = process.Only();
  EXPECT_EQ(info.state, GraphState::kReady);
  EXPECT_EQ(info.device_bytes, 100);
  EXPECT_EQ(info.arena_bytes, 4096);
  EXPECT_EQ(info.memory_bytes, totals.artifact_bytes);
  EXPECT_EQ(info.hits, 1);
  EXPECT_EQ(info.last_use, clock.Wall());
  EXPECT_TRUE(info.in_use);
}

TEST_F(GraphStoreTest, CountsWhatItDoes) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "cold"}), 1);
  ASSERT_OK(process->Get(graph, {GetMode::kCompile, Reason::kStartup}));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process.Count(metrics::kGraphCompilations, {"base", "part", "startup"}), 1);
  EXPECT_EQ(process.Lookups("miss"), 1);
  EXPECT_EQ(process.Lookups("hit"), 1);
  EXPECT_EQ(process.Durations("compile"), 1u);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "cold"}), 0);
  EXPECT_EQ(process.Value(metrics::kGraphCacheEntries, {"base", "part", "ready"}), 1);
  EXPECT_EQ(process.Value(metrics::kGraphCompilesInProgress, {}), 0);
  EXPECT_EQ(process.Value(metrics::kGraphCacheBytes, {"memory"}),
            process->totals().executable_bytes + process->totals().artifact_bytes);
  EXPECT_EQ(process.Value(metrics::kGraphCacheBudget, {"memory"}), size_t{1} << 30);
}

TEST_F(GraphStoreTest, AnotherGraphIsAnotherCompilation) {
  Process process(backend, clock, "");
  const GraphHandle four = process->Declare(Wanted(SiluGraph(4)));
  const GraphHandle five = process->Declare(Wanted(SiluGraph(5)));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, process->Get(four));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, process->Get(five));
  EXPECT_NE(a, b);
  EXPECT_EQ(process->totals().compilations, 2);
}

TEST_F(GraphStoreTest, ListsInOrderOfDeclaration) {
  Process process(backend, clock, "");
  std::vector<GraphHandle> graphs;
  std::vector<std::string> ids;
  for (int64_t size : {9, 3, 7, 5}) {
    graphs.push_back(process->Declare(Wanted(SiluGraph(size))));
    ids.push_back(GraphStore::IdOf(graphs.back()));
  }
  std::vector<std::string> listed;
  for (const GraphStatus& info : process->List()) listed.push_back(info.id);
  EXPECT_EQ(listed, ids);
}

TEST_F(GraphStoreTest, OnlyHandsOutWhatIsReadyToWhoWantsThat) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph, kReadyOnly),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("base part rows 1")));
  EXPECT_THAT(process->Get(graph, kReadyOnly), HasReason("GRAPH_COLD"));
  ASSERT_OK(process->Get(graph));
  EXPECT_OK(process->Get(graph, kReadyOnly));
}

TEST_F(GraphStoreTest, LoadingNeverCompiles) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph, kLoadOnly), HasReason("GRAPH_COLD"));
  EXPECT_EQ(backend.plans, 0);
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  EXPECT_THAT(process->Get(graph, kLoadOnly), HasReason("GRAPH_COLD"));
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreTest, NothingCompilesOnceItIsForbidden) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  const GraphHandle other = process->Declare(Wanted(SiluGraph(5)));
  ASSERT_OK(process->Get(graph));
  process->ForbidCompiling();
  EXPECT_OK(process->Get(graph));
  EXPECT_THAT(process->Get(other), HasReason("COMPILE_FORBIDDEN"));
  EXPECT_THAT(process->Get(other, kAgain), HasReason("COMPILE_FORBIDDEN"));
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process->Find(GraphStore::IdOf(other))->state, GraphState::kCold);
  // A graph left over from the start.
  EXPECT_OK(process->Get(other, {GetMode::kCompile, Reason::kStartup}));
  EXPECT_EQ(backend.plans, 2);
}

TEST_F(GraphStoreTest, AFailureIsRememberedUntilARetry) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.plan_status = absl::InternalError("no such kernel");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(process->Get(graph),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("no such kernel")));
  }
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(process.Only().state, GraphState::kFailed);
  EXPECT_THAT(process.Only().reason, HasSubstr("no such kernel"));
  EXPECT_EQ(process.Count(metrics::kGraphCompileFailures, {"base", "part"}), 1);
  EXPECT_EQ(process->totals().compilations, 0);

  backend.plan_status = absl::OkStatus();
  EXPECT_OK(process->Get(graph, kAgain));
  EXPECT_EQ(process.Only().state, GraphState::kReady);
  EXPECT_EQ(process.Only().reason, "");
  EXPECT_EQ(process.Count(metrics::kGraphCompilations, {"base", "part", "retry"}), 1);
}

TEST_F(GraphStoreTest, AFailureToLoadIsRememberedToo) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = absl::UnimplementedError("no such kernel");
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("kernel")));
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("kernel")));
  EXPECT_EQ(backend.loads, 1);
  EXPECT_EQ(process.Only().state, GraphState::kFailed);
  backend.load_status = absl::OkStatus();
  EXPECT_OK(process->Get(graph, kAgain));
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreTest, WantOfMemoryWhileLoadingIsNotRemembered) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.load_status = absl::ResourceExhaustedError("no memory");
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kResourceExhausted, "no memory"));
  EXPECT_THAT(process.Only().reason, HasSubstr("no memory"));
  backend.load_status = absl::OkStatus();
  EXPECT_OK(process->Get(graph));
}

TEST_F(GraphStoreTest, AsksBeforeItLoads) {
  absl::Status answer = absl::ResourceExhaustedError("no room");
  size_t asked = 0;
  Process process(
      backend, clock, "",
      {.before_load = [&](const GraphLabel&, const backends::MemoryNeeds& needs, const Eviction&) {
        asked = needs.arena_bytes;
        return answer;
      }});
  backend.arena_bytes = 7;
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_EQ(asked, 7u);
  EXPECT_EQ(backend.loads, 0);
  answer = absl::OkStatus();
  EXPECT_OK(process->Get(graph));
}

// Waiters for the thread that ran out of memory must not wait for ever.
TEST_F(GraphStoreTest, RunningOutOfMemoryIsAFailureLikeAnyOther) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  backend.on_load = [] { throw std::bad_alloc(); };
  EXPECT_THAT(process->Get(graph), HasReason("OUT_OF_MEMORY"));
  backend.on_load = nullptr;
  backend.on_plan = [] { throw std::bad_alloc(); };
  EXPECT_OK(process->Get(graph));  // the artifact is there
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  EXPECT_THAT(process->Get(graph), HasReason("OUT_OF_MEMORY"));
  EXPECT_EQ(process.Value(metrics::kGraphCompilesInProgress, {}), 0);
  backend.on_plan = nullptr;
  EXPECT_OK(process->Get(graph, kAgain));
}

TEST_F(GraphStoreTest, ReadyMeansThatItRan) {
  Process process(backend, clock, "", {.run_once = true});
  int runs = 0;
  backend.on_run = [&](absl::Span<const device::ConstBuffer> inputs) {
    ++runs;
    for (const float value : inputs[0].as<float>()) EXPECT_EQ(value, 0);
    return absl::OkStatus();
  };
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(runs, 1);
}

TEST_F(GraphStoreTest, OtherWeightsNeedNoFirstRunOfTheirOwn) {
  Process process(backend, clock, "", {.run_once = true});
  int runs = 0;
  absl::Status outcome = absl::InternalError("traps");
  backend.on_run = [&](auto) {
    ++runs;
    return outcome;
  };
  const GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const GraphHandle set = process->Declare(WantedWith(Weights(4, 2), "base+film"));
  const GraphHandle another = process->Declare(WantedWith(Weights(4, 3), "base+ink"));
  EXPECT_FALSE(process->Get(base).ok());
  outcome = absl::OkStatus();
  ASSERT_OK(process->Get(set));  // none has run yet
  ASSERT_OK(process->Get(base, kAgain));
  ASSERT_OK(process->Get(another));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(backend.loads, 4);
}

TEST_F(GraphStoreTest, AGraphOverOtherWeightsIsTheGraph) {
  Process process(backend, clock, "");
  const GraphHandle base = process->Declare(WantedWith(Weights(4, 1), "base"));
  const auto weights = Weights(4, 2);
  const GraphHandle over = process->DeclareOver(base, "base+film", weights);
  EXPECT_EQ(process->Declare(WantedWith(weights, "base+film")), over);
  EXPECT_THAT(process.Only().users, ElementsAre("base", "base+film"));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, process->Get(base));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, process->Get(over));
  EXPECT_NE(a, b);
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreTest, AnotherArtifactHasAFirstRunOfItsOwn) {
  Process process(backend, clock, "", {.run_once = true});
  int runs = 0;
  backend.on_run = [&](auto) {
    ++runs;
    return absl::OkStatus();
  };
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  ASSERT_OK(process->Evict(GraphStore::IdOf(graph), Tier::kMemory, false));
  ASSERT_OK(process->Get(graph));  // compiled again
  EXPECT_EQ(backend.plans, 2);
  EXPECT_EQ(runs, 2);
}

TEST_F(GraphStoreTest, WhatDoesNotRunIsNotReady) {
  Process process(backend, clock, "", {.run_once = true});
  backend.on_run = [](auto) { return absl::InternalError("traps"); };
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  EXPECT_THAT(process->Get(graph), StatusIs(absl::StatusCode::kInternal, "traps"));
  EXPECT_THAT(process->Get(graph, kReadyOnly), HasReason("GRAPH_COLD"));
  EXPECT_EQ(process.Only().state, GraphState::kFailed);
}

TEST_F(GraphStoreTest, MeasuresWithItsClock) {
  Process process(backend, clock, "");
  backend.on_plan = [this] { clock.Advance(absl::Seconds(2)); };
  backend.on_load = [this] { clock.Advance(absl::Seconds(1)); };
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  ASSERT_OK(process->Get(graph));
  EXPECT_EQ(process->totals().compile_time, absl::Seconds(2));
  EXPECT_EQ(process->totals().load_time, absl::Seconds(1));
  EXPECT_EQ(process.Only().compile_time, absl::Seconds(2));
  EXPECT_EQ(process.Only().load_time, absl::Seconds(1));
}

// Starts threads that all ask for a graph whose compilation waits until they have been started.
class Crowd {
 public:
  Crowd(Process& process, FakeBackend& backend, const std::vector<GraphHandle>& graphs,
        Purpose purpose = {})
      : results(graphs.size(), absl::UnknownError("not asked")) {
    absl::Notification compiling, go_on;
    backend.on_plan = [&] {
      if (!compiling.HasBeenNotified()) compiling.Notify();
      go_on.WaitForNotification();
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < graphs.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = process->Get(graphs[i], purpose); });
      if (i == 0) compiling.WaitForNotification();
    }
    state = process->List().front().state;
    go_on.Notify();
    for (std::thread& thread : threads) thread.join();
    backend.on_plan = nullptr;
  }

  std::vector<absl::StatusOr<ExecutablePointer>> results;
  GraphState state;  // while the first was compiling
};

TEST_F(GraphStoreTest, ThreadsThatAskTogetherCompileAndLoadOnce) {
  Process process(backend, clock, "");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  const Crowd crowd(process, backend, std::vector<GraphHandle>(8, graph));
  EXPECT_EQ(crowd.state, GraphState::kCompiling);
  for (const auto& result : crowd.results) {
    ASSERT_OK(result);
    EXPECT_EQ(*result, *crowd.results[0]);
  }
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 1);
  EXPECT_EQ(process->totals().hits, 7);
}

TEST_F(GraphStoreTest, WhoWaitsForAFailureGetsIt) {
  Process process(backend, clock, "");
  backend.plan_status = absl::UnimplementedError("no such kernel");
  const GraphHandle graph = process->Declare(Wanted(SiluGraph(4)));
  const Crowd crowd(process, backend, std::vector<GraphHandle>(8, graph));
  for (const auto& result : crowd.results) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnimplemented, "no such kernel"));
  }
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreTest, TwoUsersWithOtherWeightsThatAskTogetherCompileOnce) {
  Process process(backend, clock, "");
  const Crowd crowd(process, backend,
                    {process->Declare(WantedWith(Weights(4, 1), "base")),
                     process->Declare(WantedWith(Weights(4, 2), "refiner"))});
  ASSERT_OK(crowd.results[0]);
  ASSERT_OK(crowd.results[1]);
  EXPECT_NE(*crowd.results[0], *crowd.results[1]);
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 2);
}

TEST_F(GraphStoreTest, ASlowCompilationDoesNotBlockAnotherGraph) {
  Process process(backend, clock, "");
  const GraphHandle slow = process->Declare(Wanted(SiluGraph(4)));
  const GraphHandle quick = process->Declare(Wanted(SiluGraph(5)));
  ASSERT_OK(process->Get(quick));
  absl::Notification compiling, go_on;
  backend.on_plan = [&] {
    compiling.Notify();
    go_on.WaitForNotification();
  };
  std::thread thread([&] { EXPECT_OK(process->Get(slow)); });
  compiling.WaitForNotification();
  EXPECT_OK(process->Get(quick));  // would wait for ever
  EXPECT_THAT(process->Get(slow, kReadyOnly), HasReason("GRAPH_COLD"));
  EXPECT_EQ(process.Value(metrics::kGraphCompilesInProgress, {}), 1);
  go_on.Notify();
  thread.join();
}

TEST_F(GraphStoreTest, LoadsAGraphWhileAnotherHasItsFirstRun) {
  absl::Notification runs, both_loaded;
  backend.on_load = [&] {
    if (backend.loads == 2) both_loaded.Notify();
  };
  backend.on_run = [&](absl::Span<const device::ConstBuffer>) {
    if (runs.HasBeenNotified()) return absl::OkStatus();
    runs.Notify();
    EXPECT_TRUE(both_loaded.WaitForNotificationWithTimeout(absl::Seconds(60)));
    return absl::OkStatus();
  };
  Process process(backend, clock, "", {.run_once = true});
  const GraphHandle first = process->Declare(Wanted(SiluGraph(4)));
  const GraphHandle second = process->Declare(Wanted(SiluGraph(5)));
  std::thread thread([&] { EXPECT_OK(process->Get(first)); });
  runs.WaitForNotification();
  EXPECT_THAT(process->Get(first, kReadyOnly), HasReason("GRAPH_COLD"));
  EXPECT_EQ(process->totals().executable_bytes, 100);  // it is held, though it is not ready
  EXPECT_OK(process->Get(second));
  thread.join();
  EXPECT_EQ(process->totals().executable_bytes, 200);
}

TEST_F(GraphStoreTest, AGraphForAnotherBackendIsAnotherEntryThatRunsThere) {
  Process process(backend, clock, "");
  FakeBackend reference("reference");
  const GraphHandle here = process->Declare(Wanted(SiluGraph(4)));
  GraphSpec wanted = Wanted(SiluGraph(4));
  wanted.backend = &reference;
  const GraphHandle there = process->Declare(std::move(wanted));
  EXPECT_NE(GraphStore::IdOf(here), GraphStore::IdOf(there));
  EXPECT_EQ(process->Find(GraphStore::IdOf(there))->key.build.backend, "reference");
  ASSERT_OK(process->Get(there));
  EXPECT_EQ(reference.loads, 1);
  EXPECT_EQ(backend.loads, 0);
}

TEST_F(GraphStoreTest, AnUnknownIdIsNotFound) {
  Process process(backend, clock, "");
  for (const char* id : {"", "0123", "00000000000000000000000000000000"}) {
    EXPECT_THAT(process->Find(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->Save(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->Load(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->Verify(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->SetPinned(id, true), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->Export(id), StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
    EXPECT_THAT(process->Evict(id, Tier::kBoth, true),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(id)));
  }
  EXPECT_THAT(process->List(), IsEmpty());
}

}  // namespace
}  // namespace latentd::compiler
