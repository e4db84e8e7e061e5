// Several processes that compile into one directory.
#include <functional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

// Two that share a directory: `one` writes what it compiled when a test says so, and keeps others
// waiting until then.
class GraphStoreSharingTest : public GraphStoreFixture {
 protected:
  GraphStore::Options Holding() {
    return {.write = [this](size_t, auto write) { writes.push_back(std::move(write)); }};
  }
  void Write() {
    for (const auto& write : std::exchange(writes, {})) write();
  }
  GraphHandle Declare(Process& process) { return process->Declare(Wanted(SiluGraph(4))); }

  std::vector<std::function<void()>> writes;
};

TEST_F(GraphStoreSharingTest, WaitsForAnotherProcessThatCompilesAndTakesItsArtifact) {
  absl::Notification compiling, waiting;
  backend.on_plan = [&] {
    if (backend.plans > 1) return;
    compiling.Notify();
    waiting.WaitForNotification();
  };
  Process one(backend, clock, directory.path());
  Process other(backend, clock, directory.path(), {.stop = [&] {
                  if (!waiting.HasBeenNotified()) waiting.Notify();
                  return false;
                }});
  const GraphHandle first = Declare(one), second = Declare(other);
  std::thread compiles([&] { EXPECT_OK(one->Get(first)); });
  compiling.WaitForNotification();
  EXPECT_OK(other->Get(second));
  if (!waiting.HasBeenNotified()) waiting.Notify();
  compiles.join();
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(other->totals().compilations, 0);
  EXPECT_EQ(other.Lookups("disk"), 1);
  EXPECT_EQ(other.Durations("disk_load"), 1u);
  EXPECT_EQ(other.Only().state, GraphState::kReady);
  EXPECT_THAT(other.warnings(), IsEmpty());
}

TEST_F(GraphStoreSharingTest, WaitsUntilTheArtifactIsWritten) {
  Process one(backend, clock, directory.path(), Holding());
  Process other(backend, clock, directory.path(), {.stop = [&] {
                  Write();
                  return false;
                }});
  ASSERT_OK(one->Get(Declare(one)));
  ASSERT_THAT(writes, SizeIs(1));
  const GraphHandle graph = Declare(other);
  EXPECT_OK(other->Get(graph));
  EXPECT_EQ(backend.plans, 1);
}

TEST_F(GraphStoreSharingTest, AnotherGraphIsNotWaitedFor) {
  Process one(backend, clock, directory.path(), Holding());
  Process other(backend, clock, directory.path(), {.stop = [] {
                  ADD_FAILURE() << "waits";
                  return true;
                }});
  ASSERT_OK(one->Get(Declare(one)));
  EXPECT_OK(other->Get(other->Declare(Wanted(SiluGraph(5)))));
  Write();
}

TEST_F(GraphStoreSharingTest, CompilesItselfWhereTheOtherHangsAndSaysSo) {
  Process one(backend, clock, directory.path(), Holding());
  Process other(backend, clock, directory.path(), {.compile_wait = absl::ZeroDuration()});
  ASSERT_OK(one->Get(Declare(one)));
  EXPECT_OK(other->Get(Declare(other)));
  EXPECT_EQ(backend.plans, 2);
  EXPECT_THAT(other.warnings(), ElementsAre(HasSubstr("part rows 1 has been compiled by another")));
  Write();
  EXPECT_THAT(one.warnings(), IsEmpty());
}

TEST_F(GraphStoreSharingTest, CompilesItselfWhereTheOtherFailed) {
  Process one(backend, clock, directory.path());
  Process other(backend, clock, directory.path(), {.compile_wait = absl::ZeroDuration()});
  backend.plan_status = absl::UnimplementedError("not here");
  const GraphHandle graph = Declare(one);
  EXPECT_THAT(one->Get(graph), StatusIs(absl::StatusCode::kUnimplemented, _));
  backend.plan_status = absl::OkStatus();
  EXPECT_OK(other->Get(Declare(other)));
  EXPECT_THAT(other.warnings(), IsEmpty());
}

TEST_F(GraphStoreSharingTest, WaitsNoLongerOnceItIsToStop) {
  bool stop = true;
  Process one(backend, clock, directory.path(), Holding());
  Process other(backend, clock, directory.path(), {.stop = [&] { return stop; }});
  ASSERT_OK(one->Get(Declare(one)));
  const GraphHandle graph = Declare(other);
  EXPECT_THAT(other->Get(graph), StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(other.Only().state, GraphState::kCold);
  Write();
  EXPECT_OK(other->Get(graph));
  EXPECT_EQ(backend.plans, 1);
}

}  // namespace
}  // namespace latentd::compiler
