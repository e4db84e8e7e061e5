// Eviction from memory to make room for a load.
#include <atomic>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

// A budget for `room` executables of the fake backend's size.
class GraphStoreEvictionTest : public GraphStoreFixture {
 protected:
  GraphStore::Options Room(int room) {
    backend.executable_bytes = backend.own_bytes;
    return {.before_load = [this, room](const GraphLabel&, const backends::MemoryNeeds& needs,
                                        const Eviction& leaves) {
      const int64_t held = (*store_)->totals().executable_bytes - leaves.executable_bytes;
      const auto limit = room * static_cast<int64_t>(backend.own_bytes);
      last_ = leaves;
      return held + static_cast<int64_t>(needs.executable_bytes) <= limit
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError("no room");
    }};
  }
  Process& Open(Process& process) {
    store_ = &process;
    return process;
  }
  GraphHandle Declared(Process& process, int64_t size) {
    GraphSpec wanted = Wanted(SiluGraph(size));
    wanted.label.width = static_cast<int>(size);
    return process->Declare(wanted);
  }
  static Purpose Evicting(Process& process, const std::vector<GraphHandle>& graphs) {
    return {.mode = GetMode::kCompile, .evict_unused_since = process->MarkWanted(graphs)};
  }
  GraphState StateOf(Process& process, const GraphHandle& graph) {
    return process->Find(GraphStore::IdOf(graph))->state;
  }
  double Evictions(Process& process) {
    return process.Count(metrics::kGraphCacheEvictions, {"memory_budget"});
  }

  Process* store_ = nullptr;
  Eviction last_;
};

TEST_F(GraphStoreEvictionTest, WhatIsNoGraphGetsRoomFromIdleOnesOrNoneOfThemLeaves) {
  Process process(backend, clock, directory.path(), Room(3));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
  for (const GraphHandle& graph : {a, b, c}) ASSERT_OK(process->Get(graph));
  const auto in_use = process->Get(a).value();
  // Fits once that many bytes are held, and no more.
  const auto make_room = [&](int64_t held) {
    return process->MakeRoom({.component = "other"}, [&, held](const Eviction& leaves) {
      const int64_t left = process->totals().executable_bytes - leaves.executable_bytes;
      return left <= held ? absl::OkStatus() : absl::ResourceExhaustedError("no room");
    });
  };
  const auto bytes = static_cast<int64_t>(backend.own_bytes);
  EXPECT_THAT(make_room(0), StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_EQ(Evictions(process), 0);
  EXPECT_OK(make_room(2 * bytes));
  EXPECT_EQ(Evictions(process), 1);
  EXPECT_EQ(StateOf(process, b), GraphState::kCompiled);
  EXPECT_EQ(StateOf(process, c), GraphState::kReady);
}

TEST_F(GraphStoreEvictionTest, TheLeastRecentlyUsedMakesRoomAndIsLoadedAgainWithoutCompiling) {
  for (const bool with_disk : {true, false}) {
    Process process(backend, clock, with_disk ? directory.path() : "", Room(2));
    Open(process);
    const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
    ASSERT_OK(process->Get(a));
    ASSERT_OK(process->Get(b));
    ASSERT_OK(process->Get(a));  // used again
    EXPECT_OK(process->Get(c, Evicting(process, {c})));
    EXPECT_EQ(StateOf(process, a), GraphState::kReady);
    EXPECT_EQ(StateOf(process, b), GraphState::kCompiled);
    EXPECT_EQ(StateOf(process, c), GraphState::kReady);
    EXPECT_EQ(Evictions(process), 1);
    EXPECT_EQ(process->totals().executable_bytes, 200);
    EXPECT_THAT(process.warnings(), ElementsAre(HasSubstr("make room for base part 3x0")));
    backend.plans = 0;
    EXPECT_OK(
        process->Get(b, {.mode = GetMode::kLoad, .evict_unused_since = process->MarkWanted({b})}));
    EXPECT_EQ(backend.plans, 0);
  }
}

TEST_F(GraphStoreEvictionTest, EvictsNoMoreThanItMust) {
  Process process(backend, clock, "", Room(3));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
  for (const GraphHandle& graph : {a, b, c}) ASSERT_OK(process->Get(graph));
  backend.executable_bytes = 200;
  const GraphHandle large = Declared(process, 4);
  EXPECT_OK(process->Get(large, Evicting(process, {large})));
  EXPECT_EQ(Evictions(process), 2);
  EXPECT_EQ(StateOf(process, c), GraphState::kReady);
}

TEST_F(GraphStoreEvictionTest, WhatIsPinnedInUseOrWantedTooStays) {
  Process process(backend, clock, directory.path(), Room(4));
  Open(process);
  const GraphHandle pinned = Declared(process, 1), used = Declared(process, 2);
  const GraphHandle wanted = Declared(process, 3), idle = Declared(process, 4);
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(pinned), true));
  ASSERT_OK(process->Get(pinned));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer held, process->Get(used));
  ASSERT_OK(process->Get(wanted));
  ASSERT_OK(process->Get(idle));
  const GraphHandle more = Declared(process, 5), too_many = Declared(process, 6);
  const Purpose purpose = Evicting(process, {wanted, more, too_many});
  EXPECT_OK(process->Get(more, purpose));
  EXPECT_EQ(StateOf(process, idle), GraphState::kCompiled);
  // `more` was loaded for the same request.
  EXPECT_THAT(process->Get(too_many, purpose),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  for (const GraphHandle& graph : {pinned, used, wanted, more}) {
    EXPECT_EQ(StateOf(process, graph), GraphState::kReady);
  }
  EXPECT_EQ(Evictions(process), 1);
}

TEST_F(GraphStoreEvictionTest, NothingLeavesForWhatDoesNotFitAnyway) {
  Process process(backend, clock, "", Room(2));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
  ASSERT_OK(process->Get(a));
  ASSERT_OK(process->Get(b));
  backend.executable_bytes = 201;
  EXPECT_THAT(process->Get(c, Evicting(process, {c})),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_EQ(StateOf(process, a), GraphState::kReady);
  EXPECT_EQ(StateOf(process, b), GraphState::kReady);
  EXPECT_EQ(Evictions(process), 0);
  EXPECT_THAT(process.warnings(), IsEmpty());
}

// As a server starts: its buckets do not push each other out.
TEST_F(GraphStoreEvictionTest, NothingLeavesForWhoDoesNotAllowIt) {
  Process process(backend, clock, "", Room(1));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2);
  ASSERT_OK(process->Get(a));
  EXPECT_THAT(process->Get(b), StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_EQ(StateOf(process, a), GraphState::kReady);
  EXPECT_EQ(Evictions(process), 0);
}

// A weight that something else reads too stays, and so does the arena that something else needs.
TEST_F(GraphStoreEvictionTest, SaysWhatWouldLeave) {
  const int x = 0, y = 0, z = 0;
  Process process(backend, clock, "", Room(2));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
  backend.held_weights = {&x, &y};
  ASSERT_OK(process->Get(a));
  backend.held_weights = {&y, &z};
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer held, process->Get(b));
  backend.executable_bytes = 500;
  EXPECT_FALSE(process->Get(c, Evicting(process, {c})).ok());
  EXPECT_THAT(last_.weights, UnorderedElementsAre(&x));
  EXPECT_EQ(last_.executable_bytes, 100);
  EXPECT_EQ(last_.arena_bytes, 0);
  EXPECT_EQ(last_.artifact_bytes, 0);  // without a disk it stays
}

// A graph in its first run is loaded, and stays.
TEST_F(GraphStoreEvictionTest, WhatHasItsFirstRunCountsAsLoaded) {
  const int x = 0, y = 0, z = 0;
  GraphStore::Options options = Room(2);
  options.run_once = true;
  Process process(backend, clock, "", std::move(options));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2), c = Declared(process, 3);
  backend.held_weights = {&x, &y};
  ASSERT_OK(process->Get(a));
  absl::Notification runs, go_on;
  backend.on_run = [&](auto) {
    runs.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  };
  backend.held_weights = {&y, &z};
  std::thread thread([&] { EXPECT_OK(process->Get(b)); });
  runs.WaitForNotification();
  backend.executable_bytes = 500;
  EXPECT_FALSE(process->Get(c, Evicting(process, {c})).ok());
  EXPECT_THAT(last_.weights, UnorderedElementsAre(&x));
  EXPECT_EQ(last_.executable_bytes, 100);
  EXPECT_EQ(last_.arena_bytes, 0);
  EXPECT_OK(process->Evict(GraphStore::IdOf(b), Tier::kMemory, true));
  EXPECT_EQ(process->totals().executable_bytes, 200);
  go_on.Notify();
  thread.join();
  EXPECT_EQ(StateOf(process, b), GraphState::kReady);
}

TEST_F(GraphStoreEvictionTest, TellsBeforehandWhetherThereIsRoom) {
  Process process(backend, clock, "", Room(1));
  Open(process);
  const GraphHandle a = Declared(process, 1), b = Declared(process, 2);
  ASSERT_OK(process->Get(a));
  EXPECT_OK(process->CheckRoom(b, 0));  // its needs are unknown
  EXPECT_FALSE(process->Get(b).ok());
  EXPECT_FALSE(last_.only_asked);
  EXPECT_THAT(process->CheckRoom(b, 0), StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_TRUE(last_.only_asked);
  EXPECT_OK(process->CheckRoom(b, process->MarkWanted({b})));
  EXPECT_EQ(Evictions(process), 0);
  EXPECT_EQ(StateOf(process, a), GraphState::kReady);
}

// It counts as gone with what its users hold beside it.
TEST_F(GraphStoreEvictionTest, TellsWhetherThereWillBeRoomOnceNothingIsInUse) {
  Process process(backend, clock, directory.path(), Room(3));
  Open(process);
  const GraphHandle pinned = Declared(process, 1), own = Declared(process, 2);
  const GraphHandle used = Declared(process, 3);
  ASSERT_OK(process->SetPinned(GraphStore::IdOf(pinned), true));
  ASSERT_OK(process->Get(pinned));
  ASSERT_OK(process->Get(own));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer held, process->Get(used));
  const GraphLabel label = {.component = "other"};
  backends::MemoryNeeds needs;
  needs.executable_bytes = backend.own_bytes;
  const std::vector<GraphHandle> kept = {own}, none;
  EXPECT_FALSE(process->CheckRoom(label, needs, process->MarkWanted(kept)).ok());
  EXPECT_OK(process->CheckRoomOnceIdle(label, needs, kept));
  EXPECT_EQ(last_.executable_bytes, static_cast<int64_t>(backend.own_bytes));
  EXPECT_TRUE(last_.with_users);
  EXPECT_TRUE(last_.only_asked);
  needs.executable_bytes *= 2;
  EXPECT_FALSE(process->CheckRoomOnceIdle(label, needs, kept).ok());
  EXPECT_OK(process->CheckRoomOnceIdle(label, needs, none));
  EXPECT_EQ(Evictions(process), 0);
}

// Eviction takes the store's lock while another thread holds the one of loading.
TEST_F(GraphStoreEvictionTest, ThreadsThatEvictEachOthersGraphsAllGetTheirs) {
  Process process(backend, clock, "", Room(1));
  Open(process);
  std::vector<GraphHandle> graphs;
  for (int64_t size = 1; size <= 4; ++size) graphs.push_back(Declared(process, size));
  std::vector<std::thread> threads;
  std::atomic<int> got = 0;
  for (const GraphHandle& graph : graphs) {
    threads.emplace_back([&, graph] {
      for (int i = 0; i < 50; ++i) {
        // Another thread's may be in use for a moment.
        got += process->Get(graph, Evicting(process, {graph})).ok();
        EXPECT_LE(process->totals().executable_bytes, 400);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(got, 0);
  EXPECT_OK(process->Get(graphs[0], Evicting(process, {graphs[0]})));
}

}  // namespace
}  // namespace latentd::compiler
