// Step graphs of more rows than a picture has: a server serves before they are there, shares steps
// in them once they are, and does without those that cannot be had.
#include "core/engine/prepare/shared_step_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kSteps = 3;

// True for a step of so many rows.
bool HasRows(const graph::Graph& graph, int64_t rows) {
  const auto& outputs = graph.outputs();
  return std::all_of(outputs.begin(), outputs.end(), [&](const graph::Output& output) {
    return graph.node(output.value).shape.dims().front() == rows;
  });
}

absl::Status CompileAll(const graph::Graph&) { return absl::OkStatus(); }

class SharedStepGraphsTest : public ::testing::Test {
 protected:
  SharedStepGraphsTest() {
    config_.rows = {1, 4};
    config_.warn = [this](absl::string_view warning) {
      absl::MutexLock lock(&mutex_);
      warnings_.emplace_back(warning);
    };
  }
  ~SharedStepGraphsTest() override {
    gate_.Open();
    engine_.reset();
  }

  void Load(WatchedBackend::Watch watch) {
    engine_.reset();
    {
      absl::MutexLock lock(&mutex_);
      last_ = {};
    }
    engine_ =
        std::make_unique<LocalEngine>(config_, WatchedBackend::Create(std::move(watch)), clock_);
    engine_->OnStatusChange([this](const ServerStatus& status) {
      absl::MutexLock lock(&mutex_);
      last_ = status;
    });
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady);
  }
  // Steps of four rows are not compiled before the gate is opened.
  void LoadUpToTheGate() {
    gate_.Close();
    Load([this](const graph::Graph& graph) {
      if (HasRows(graph, 4)) gate_.Pass();
      if (HasRows(graph, 8)) ++plans_of_eight_;
      return absl::OkStatus();
    });
    gate_.WaitForSomebody();
  }
  // Until `is` is true of the status.
  ServerStatus WaitFor(bool (*is)(const ServerStatus&)) {
    const auto holds = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return is(last_); };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), ::latentd::testing::kLongestWait));
    return last_;
  }
  // How many there are of how many.
  std::pair<int, int> WaitForAll() {
    const auto count = WaitFor([](const ServerStatus& status) {
                         return status.shared_steps.has_value();
                       }).shared_steps.value_or(ServerStatus::GraphCount());
    engine_->FinishPreparing();  // the warning follows
    return {count.ready, count.total};
  }
  // Draws a request for two pictures without guidance.
  std::vector<std::string> DrawTwo() {
    GenerateSpec spec = SmallSpec(kSteps);
    spec.picture.num_images_per_prompt = 2;
    std::vector<std::string> files;
    for (const Image& image : Only<Image>(RunOn(*engine_, spec))) files.push_back(image.bytes);
    EXPECT_EQ(files.size(), 2u);
    return files;
  }
  double Evaluations() { return HistogramOf(engine_->metrics(), metrics::kStepRows).first; }
  GraphEntry StepOf(int rows) {
    const auto graphs = engine_->graphs().List({.components = {"unet"}});
    EXPECT_OK(graphs);
    for (const GraphEntry& graph : *graphs) {
      if (graph.part == "step" && graph.rows == rows) return graph;
    }
    ADD_FAILURE() << "no step of " << rows << " rows is known";
    return {};
  }
  std::vector<std::string> warnings() {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }

  FakeClock clock_;
  Config config_ = SmallConfig();
  Gate gate_;
  std::atomic<int> plans_of_eight_ = 0;
  absl::Mutex mutex_;
  ServerStatus last_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(SharedStepGraphsTest, AServerServesBeforeTheyAreThere) {
  config_.rows = {1, 4, 8};
  LoadUpToTheGate();
  const ServerStatus status = engine_->status();
  EXPECT_TRUE(status.buckets.at(0).ready);
  EXPECT_EQ(status.graphs_total, 7);  // as with one row alone
  EXPECT_EQ(status.graphs_done, 7);
  EXPECT_EQ(MetricOf(*engine_, metrics::kBucketWarm, "64x64"), 1);
  EXPECT_FALSE(status.shared_steps.has_value());
  EXPECT_EQ(StepOf(4).state, GraphState::kCompiling);
  EXPECT_EQ(StepOf(8).state, GraphState::kCold);

  const std::vector<std::string> alone = DrawTwo();
  EXPECT_EQ(Evaluations(), 2 * kSteps);

  gate_.Open();
  EXPECT_EQ(WaitForAll(), std::make_pair(2, 2));
  EXPECT_EQ(StepOf(8).state, GraphState::kReady);
  EXPECT_EQ(DrawTwo(), alone);
  EXPECT_EQ(Evaluations(), 2 * kSteps + kSteps);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SharedStepGraphsTest, AServerDoesWithoutThoseThatCannotBeCompiledAndSaysSoOnce) {
  config_.rows = {1, 4, 8};
  Load([](const graph::Graph& graph) {
    const bool shared = HasRows(graph, 4) || HasRows(graph, 8);
    return shared ? absl::InternalError("no kernel today") : absl::OkStatus();
  });
  EXPECT_EQ(WaitForAll(), std::make_pair(0, 2));
  EXPECT_EQ(engine_->state(), State::kReady);
  EXPECT_EQ(engine_->status().reason, "");
  EXPECT_THAT(warnings(), ElementsAre(AllOf(HasSubstr("64x64 rows 4: no kernel today"),
                                            HasSubstr("64x64 rows 8: no kernel today"))));
  EXPECT_EQ(StepOf(4).state, GraphState::kFailed);
  EXPECT_EQ(StepOf(4).reason, "no kernel today");
  DrawTwo();
  EXPECT_EQ(Evaluations(), 2 * kSteps);

  // An export of all graphs leaves these out, unless they are named.
  int exported = 0;
  EXPECT_OK(engine_->graphs().Export({.all = true}, [&](std::string) { return ++exported > 0; }));
  EXPECT_GT(exported, 0);
  EXPECT_FALSE(
      engine_->graphs().Export({.ids = {StepOf(4).id}}, [](std::string) { return true; }).ok());

  // Nor is a bucket lost when an operator tries again.
  const auto outcome =
      engine_->graphs().Warm({.buckets = {{64, 64}}}, /*dry_run=*/false, [](auto) { return true; });
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->failed, 2);
  EXPECT_EQ(engine_->state(), State::kReady);
  DrawTwo();
}

TEST_F(SharedStepGraphsTest, WhatDoesNotFitIsLeftOutAndSoIsWhatIsLarger) {
  config_.rows = {1};
  Load(CompileAll);
  const MemoryReport alone = engine_->memory();
  config_.rows = {1, 8};
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  const int64_t of_eight = engine_->memory().predicted.total() - alone.predicted.total();
  config_.rows = {1, 8, 16};
  // Half of that is room to make what has one row.
  config_.memory_bytes = alone.weight_bytes + alone.arena_bytes + alone.executable_bytes +
                         alone.artifact_bytes + alone.definition_bytes + alone.predicted.state +
                         of_eight / 2;
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(0, 2));
  EXPECT_EQ(engine_->state(), State::kReady);
  EXPECT_THAT(warnings(),
              ElementsAre(AllOf(HasSubstr("rows 8 needs "), Not(HasSubstr("rows 16")))));
  EXPECT_EQ(StepOf(8).state, GraphState::kFailed);
  EXPECT_THAT(StepOf(8).reason, HasSubstr("are held"));
  EXPECT_EQ(engine_->memory().predicted.total(), alone.predicted.total());
  DrawTwo();
}

// --graph-memory evicts the least recently used otherwise, which are other buckets' own.
TEST_F(SharedStepGraphsTest, NothingLeavesMemoryForThem) {
  config_.rows = {1};
  Load(CompileAll);
  const MemoryReport alone = engine_->memory();
  config_.rows = {1, 4};
  config_.graph_memory_bytes = alone.executable_bytes + alone.artifact_bytes;
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(0, 1));
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("--graph-memory")));
  const auto graphs = engine_->graphs().List({.all = true});
  ASSERT_OK(graphs);
  for (const GraphEntry& graph : *graphs) {
    EXPECT_EQ(graph.state, graph.rows == 4 ? GraphState::kFailed : GraphState::kReady) << graph.id;
  }
  DrawTwo();
}

TEST_F(SharedStepGraphsTest, ADrainEndsThemAfterTheRunningCompilation) {
  config_.rows = {1, 4, 8};
  LoadUpToTheGate();
  engine_->Drain(clock_.Monotonic());
  gate_.Open();
  engine_.reset();
  EXPECT_EQ(plans_of_eight_, 0);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SharedStepGraphsTest, StrictModeCompilesThemAndNothingForRequestsMeanwhile) {
  config_.forbid_compile_after_ready = true;
  LoadUpToTheGate();
  const auto cold = SpecOf({72, 64}, pipeline::BucketPolicy::kColdOk);
  EXPECT_EQ(GetReason(SubmitTo(*engine_, cold)), "COMPILE_FORBIDDEN");
  gate_.Open();
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  EXPECT_EQ(CompilationsOf(*engine_), 8);
  EXPECT_EQ(MetricOf(*engine_, metrics::kGraphCompilations, "startup"), 8);
  const auto outcome =
      engine_->graphs().Warm({.buckets = {{72, 64}}}, /*dry_run=*/false, [](auto) { return true; });
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->failed, 5);  // with its step of four rows
  EXPECT_EQ(CompilationsOf(*engine_), 8);
}

TEST_F(SharedStepGraphsTest, AStartThatOnlyLoadsTakesThoseThatTheCacheHas) {
  const TemporaryDirectory directory;
  config_.cache_dir = directory.File("cache");
  config_.rows = {1};
  Load(CompileAll);
  config_.rows = {1, 4};
  config_.compile_at_start = false;
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(0, 1));
  EXPECT_EQ(StepOf(4).state, GraphState::kCold);
  config_.compile_at_start = true;
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  EXPECT_EQ(CompilationsOf(*engine_), 1);
  config_.compile_at_start = false;
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  EXPECT_EQ(CompilationsOf(*engine_), 0);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SharedStepGraphsTest, OneThatWasEvictedIsLoadedAgainWhenPicturesWantIt) {
  const TemporaryDirectory directory;
  config_.cache_dir = directory.File("cache");
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  const GraphSelector step{.ids = {StepOf(4).id}};
  const auto evict_and_draw = [&] {
    EXPECT_OK(engine_->graphs().Evict(step, CacheTier::kMemory, /*force=*/true));
    EXPECT_EQ(StepOf(4).state, GraphState::kCompiled);
    DrawTwo();
    engine_->FinishPreparing();
    return StepOf(4).state;
  };
  EXPECT_EQ(evict_and_draw(), GraphState::kReady);
  EXPECT_EQ(CompilationsOf(*engine_), 8);
  // Scarce memory is not searched again with each request.
  EXPECT_EQ(evict_and_draw(), GraphState::kCompiled);
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(evict_and_draw(), GraphState::kReady);
}

TEST_F(SharedStepGraphsTest, ADeviceThatFailsMeanwhileEndsServing) {
  config_.rows = {1, 4, 8};
  gate_.Close();  // until the server serves
  Load([this](const graph::Graph& graph) {
    if (HasRows(graph, 8)) ++plans_of_eight_;
    if (!HasRows(graph, 4)) return absl::OkStatus();
    gate_.Pass();
    return device::FaultError("it fell off the bus");
  });
  gate_.Open();
  const ServerStatus status =
      WaitFor([](const ServerStatus& status) { return status.state == State::kFailed; });
  EXPECT_EQ(status.device_fault, "it fell off the bus");
  WaitFor([](const ServerStatus& status) { return status.shared_steps.has_value(); });
  EXPECT_EQ(plans_of_eight_, 0);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SharedStepGraphsTest, WhereNobodySaysOtherwiseThereAreThreeRowCountsOnACpu) {
  config_.rows = {};
  Load(CompileAll);
  EXPECT_EQ(WaitForAll(), std::make_pair(1, 1));
  std::set<int> rows;
  const auto graphs = engine_->graphs().List({.components = {"unet"}});
  ASSERT_OK(graphs);
  for (const GraphEntry& graph : *graphs) rows.insert(graph.rows);
  EXPECT_THAT(rows, ElementsAre(1, 2, 4));
}

}  // namespace
}  // namespace latentd::engine
