#include "core/compiler/graph_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/weights/weight_store.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

using ExecutablePointer = std::shared_ptr<backends::Executable>;

class GraphStoreTest : public ::testing::Test {
 protected:
  std::shared_ptr<const weights::WeightSet> NewWeights() {
    return std::make_shared<const weights::WeightSet>(&weight_store_);
  }

  testing::FakeClock clock;
  FakeBackend backend;
  weights::WeightStore weight_store_{nullptr};
  const std::shared_ptr<const weights::WeightSet> weights = NewWeights();
};

TEST_F(GraphStoreTest, CompilesOnceAndGivesTheSameExecutableAgain) {
  GraphStore store(backend, clock);
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, store.GetOrLoad(SiluGraph(4), weights));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, store.GetOrLoad(SiluGraph(4), weights));
  EXPECT_EQ(a, b);
  EXPECT_EQ(store.counts().compilations, 1);
  EXPECT_EQ(store.counts().loads, 1);
  EXPECT_EQ(store.counts().hits, 1);
}

TEST_F(GraphStoreTest, AnotherGraphIsAnotherCompilation) {
  GraphStore store(backend, clock);
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, store.GetOrLoad(SiluGraph(4), weights));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, store.GetOrLoad(SiluGraph(5), weights));
  EXPECT_NE(a, b);
  EXPECT_EQ(store.counts().compilations, 2);
}

TEST_F(GraphStoreTest, AnotherWeightSetSharesTheArtifact) {
  GraphStore store(backend, clock);
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer a, store.GetOrLoad(SiluGraph(4), weights));
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer b, store.GetOrLoad(SiluGraph(4), NewWeights()));
  EXPECT_NE(a, b);
  EXPECT_EQ(store.counts().compilations, 1);
  EXPECT_EQ(store.counts().loads, 2);
}

TEST_F(GraphStoreTest, TheLeastRecentlyUsedExecutableLeavesAndItsArtifactStays) {
  GraphStore store(backend, clock, {.executables = 2});
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));
  ASSERT_OK(store.GetOrLoad(SiluGraph(2), weights));
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));  // used again
  ASSERT_OK(store.GetOrLoad(SiluGraph(3), weights));  // 2 leaves
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));
  EXPECT_EQ(store.counts().loads, 3);
  ASSERT_OK(store.GetOrLoad(SiluGraph(2), weights));
  EXPECT_EQ(store.counts().loads, 4);
  EXPECT_EQ(store.counts().compilations, 3);
}

TEST_F(GraphStoreTest, WhatIsInUseOutlivesItsPlaceInTheStore) {
  GraphStore store(backend, clock, {.executables = 1});
  ASSERT_OK_AND_ASSIGN(const ExecutablePointer used, store.GetOrLoad(SiluGraph(1), weights));
  std::weak_ptr<backends::Executable> unused;
  {
    ASSERT_OK_AND_ASSIGN(const ExecutablePointer other, store.GetOrLoad(SiluGraph(2), weights));
    unused = other;
  }
  EXPECT_FALSE(unused.expired());
  ASSERT_OK(store.GetOrLoad(SiluGraph(3), weights));
  EXPECT_TRUE(unused.expired());
  EXPECT_EQ(used.use_count(), 1);
  EXPECT_EQ(used->inputs().size(), 1u);
}

TEST_F(GraphStoreTest, AnExecutableKeepsItsWeightSetUntilItLeaves) {
  GraphStore store(backend, clock, {.executables = 1});
  std::weak_ptr<const weights::WeightSet> other;
  {
    const auto set = NewWeights();
    other = set;
    ASSERT_OK(store.GetOrLoad(SiluGraph(1), set));
  }
  EXPECT_FALSE(other.expired());
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));
  EXPECT_TRUE(other.expired());
}

TEST_F(GraphStoreTest, ArtifactsLeaveBeyondTheirBytes) {
  GraphStore store(backend, clock, {.executables = 0, .artifact_bytes = 1});
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));  // the newest stays, however large
  EXPECT_EQ(store.counts().compilations, 1);
  ASSERT_OK(store.GetOrLoad(SiluGraph(2), weights));
  ASSERT_OK(store.GetOrLoad(SiluGraph(1), weights));
  EXPECT_EQ(store.counts().compilations, 3);
}

TEST_F(GraphStoreTest, AFailureGivesItsReasonAndIsTriedAgain) {
  GraphStore store(backend, clock);
  backend.plan_status = absl::ResourceExhaustedError("does not fit");
  EXPECT_THAT(store.GetOrLoad(SiluGraph(4), weights),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("does not fit")));
  EXPECT_EQ(store.counts().compilations, 0);
  backend.plan_status = absl::OkStatus();
  EXPECT_OK(store.GetOrLoad(SiluGraph(4), weights));
}

TEST_F(GraphStoreTest, MeasuresWithItsClock) {
  GraphStore store(backend, clock);
  backend.on_plan = [this] { clock.Advance(absl::Seconds(2)); };
  ASSERT_OK(store.GetOrLoad(SiluGraph(4), weights));
  EXPECT_EQ(store.counts().compile_time, absl::Seconds(2));
  EXPECT_EQ(store.counts().load_time, absl::ZeroDuration());
}

TEST_F(GraphStoreTest, ThreadsThatAskTogetherCompileAndLoadOnce) {
  GraphStore store(backend, clock);
  absl::Notification compiling, go_on;
  backend.on_plan = [&] {
    compiling.Notify();
    go_on.WaitForNotification();
  };
  std::vector<absl::StatusOr<ExecutablePointer>> results(8, absl::UnknownError("not asked"));
  std::vector<std::thread> threads;
  threads.emplace_back([&] { results[0] = store.GetOrLoad(SiluGraph(4), weights); });
  compiling.WaitForNotification();
  for (size_t i = 1; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = store.GetOrLoad(SiluGraph(4), weights); });
  }
  go_on.Notify();
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_OK(result);
    EXPECT_EQ(*result, *results[0]);
  }
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 1);
  EXPECT_EQ(store.counts().hits, 7);
}

TEST_F(GraphStoreTest, TwoWeightSetsThatAskTogetherCompileOnce) {
  GraphStore store(backend, clock);
  absl::Notification compiling, go_on;
  backend.on_plan = [&] {
    compiling.Notify();
    go_on.WaitForNotification();
  };
  absl::StatusOr<ExecutablePointer> a, b;
  std::thread first([&] { a = store.GetOrLoad(SiluGraph(4), weights); });
  compiling.WaitForNotification();
  std::thread second([&] { b = store.GetOrLoad(SiluGraph(4), NewWeights()); });
  go_on.Notify();
  first.join();
  second.join();
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(backend.plans, 1);
  EXPECT_EQ(backend.loads, 2);
}

TEST_F(GraphStoreTest, ASlowCompilationDoesNotBlockAnotherGraph) {
  GraphStore store(backend, clock);
  ASSERT_OK(store.GetOrLoad(SiluGraph(5), weights));
  absl::Notification compiling, go_on;
  backend.on_plan = [&] {
    compiling.Notify();
    go_on.WaitForNotification();
  };
  std::thread slow([&] { EXPECT_OK(store.GetOrLoad(SiluGraph(4), weights)); });
  compiling.WaitForNotification();
  EXPECT_OK(store.GetOrLoad(SiluGraph(5), weights));  // would wait for ever
  go_on.Notify();
  slow.join();
}

}  // namespace
}  // namespace latentd::compiler
