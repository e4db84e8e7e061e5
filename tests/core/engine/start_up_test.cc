// From Load to a server that serves: states, progress, buckets that fail to load, restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kExact = pipeline::BucketPolicy::kExact;

bool Always(const WarmProgress&) { return true; }

std::vector<bool> ReadinessOf(const Engine& engine) {
  std::vector<bool> ready;
  for (const ServerStatus::Bucket& bucket : engine.status().buckets) ready.push_back(bucket.ready);
  return ready;
}

TEST(StartUpTest, GoesFromLoadingOverWarmingToReady) {
  std::vector<ServerStatus> seen;  // outlives the engine, which tells of its end too
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(SmallConfig(), SystemClock()));
  EXPECT_EQ(engine->state(), State::kLoading);
  EXPECT_EQ(engine->graphs().Find("123456").status().code(), absl::StatusCode::kUnavailable);
  engine->OnStatusChange([&](const ServerStatus& status) { seen.push_back(status); });
  ASSERT_OK(engine->Load());

  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen.front().state, State::kWarming);
  EXPECT_EQ(seen.front().graphs_done, 0);
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(seen[i].graphs_done, seen[i - 1].graphs_done);
    EXPECT_FALSE(seen[i] == seen[i - 1]);
  }
  const ServerStatus& last = seen.back();
  EXPECT_EQ(last.state, State::kReady);
  EXPECT_EQ(last.graphs_done, last.graphs_total);
  // Two text encoders, two parts of the UNet, the VAE's two halves.
  EXPECT_EQ(last.graphs_total, 7);
  EXPECT_EQ(last.reason, "");
  EXPECT_GE(last.ready, last.started);
  EXPECT_THAT(ReadinessOf(*engine), ElementsAre(true));
  EXPECT_EQ(MetricOf(*engine, metrics::kServerState, "ready"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kServerState), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kBucketWarm, "64x64"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kModelInfo, "base"), 1);
  EXPECT_EQ(CompilationsOf(*engine), 7);
  EXPECT_EQ(MetricOf(*engine, metrics::kGraphCompilations, "startup"), 7);
}

// Two graphs are made at a time; each compilation takes a second, and nothing else takes any.
TEST(StartUpTest, PhasesFollowEachOtherAndTotalIsTheirSum) {
  ::latentd::testing::FakeClock clock;
  absl::Barrier* const both = new absl::Barrier(2);  // deletes itself
  std::atomic<int> plans = 0;
  const auto plan = [&](const graph::Graph&) {
    if (++plans <= 2 && both->Block()) delete both;
    clock.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  LocalEngine engine(SmallConfig(), WatchedBackend::Create(plan), clock);
  ASSERT_OK(engine.Load());
  const auto phase = [&](const char* name) {
    return MetricOf(engine, metrics::kStartupPhase, name);
  };
  EXPECT_EQ(phase("compile"), 7);
  EXPECT_EQ(phase("total"), 7);
  EXPECT_EQ(MetricOf(engine, metrics::kStartupPhase), 2 * phase("total"));
}

TEST(StartUpTest, TakesTheModelsOwnBucketsWhereNoneAreConfigured) {
  Config config = SmallConfig();
  config.buckets.clear();
  config.compile_at_start = false;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  std::vector<std::string> sizes;
  for (const auto& bucket : engine->capabilities().buckets) sizes.push_back(SizeText(bucket.size));
  EXPECT_THAT(sizes, ElementsAre("256x256", "320x192", "192x320"));
}

TEST(StartUpTest, CompilesNothingAfterARestartAndDrawsTheSameBytes) {
  const TemporaryDirectory directory;
  Config config = EnsembleConfig();
  config.cache_dir = directory.File("cache");
  GenerateSpec spec = SmallSpec(4);
  spec.picture.refine = true;
  std::string first;
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
    ASSERT_OK(engine->Load());
    EXPECT_GT(CompilationsOf(*engine), 0);
    first = Only<Image>(RunOn(*engine, spec)).at(0).bytes;
  }
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(CompilationsOf(*engine), 0);
  EXPECT_EQ(Only<Image>(RunOn(*engine, spec)).at(0).bytes, first);
  EXPECT_EQ(CompilationsOf(*engine), 0);
}

TEST(StartUpTest, GoesOnWithoutACacheDirectoryThatCannotBeUsed) {
  const TemporaryDirectory directory;
  Config config = SmallConfig();
  config.cache_dir = directory.File("file");
  testing::WriteFile(config.cache_dir, "no directory");
  config.compile_at_start = false;
  std::vector<std::string> warnings;
  config.warn = [&](absl::string_view warning) { warnings.emplace_back(warning); };
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  EXPECT_OK(engine->Load());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr(config.cache_dir)));
}

TEST(StartUpTest, OnlyLoadsWhereItMayNotCompile) {
  Config config = SmallConfig();
  config.compile_at_start = false;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  EXPECT_EQ(engine->state(), State::kDegraded);
  EXPECT_THAT(engine->status().reason, HasSubstr("64x64: "));
  EXPECT_THAT(ReadinessOf(*engine), ElementsAre(false));
  EXPECT_EQ(CompilationsOf(*engine), 0);
  const absl::Status cold = SubmitTo(*engine, SmallSpec());
  EXPECT_EQ(cold.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetReason(cold), "BUCKET_COLD");
  EXPECT_EQ(MetricOf(*engine, metrics::kRequestsRejected, "cold_bucket"), 1);

  ASSERT_OK(engine->graphs().Warm({.buckets = {{64, 64}}}, /*dry_run=*/false, Always));
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(MetricOf(*engine, metrics::kGraphCompilations, "warm"), 7);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SmallSpec())).size(), 1u);
}

TEST(StartUpTest, NamesTheFieldWhoseStepsItsRowsLack) {
  Config config = SmallConfig();
  config.rows = {2};
  config.compile_at_start = false;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  const auto refusal = [&](const GenerateSpec& spec) {
    return std::string(SubmitTo(*engine, spec).message());
  };
  GenerateSpec spec = SmallSpec();
  EXPECT_THAT(refusal(spec), HasSubstr("64x64 is not ready with steps of 1 row, which images "
                                       "without guidance need (--rows of the server is 2)"));
  spec.picture.guidance_scale = 5;
  EXPECT_THAT(refusal(spec), HasSubstr("64x64 is not ready: "));
  spec.picture.guidance_interval = pipeline::GuidanceInterval{0, 0.5};
  EXPECT_THAT(refusal(spec), HasSubstr("with steps of 1 row, which guidance_interval needs"));
  spec.picture.guidance_interval.reset();
  spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  EXPECT_THAT(refusal(spec), HasSubstr("with steps of 1 row, which guidance_stop needs"));
}

TEST(StartUpTest, ServesTheOtherBucketsWhereOneDoesNotFit) {
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {512, 512}};
  // The weights are 30 MB; a picture of 512x512 takes more than 100 MB of intermediates.
  config.memory_bytes = int64_t{60} << 20;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  const ServerStatus status = engine->status();
  EXPECT_EQ(status.state, State::kDegraded);
  EXPECT_THAT(status.reason, HasSubstr("512x512 rows 1 needs "));
  ASSERT_EQ(status.buckets.size(), 2u);
  EXPECT_EQ(status.buckets[0].size, (pipeline::Size{512, 512}));
  EXPECT_FALSE(status.buckets[0].ready);
  EXPECT_TRUE(status.buckets[1].ready);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SmallSpec())).size(), 1u);
  const absl::Status refused = SubmitTo(*engine, SpecOf({512, 512}, kExact));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_EQ(MetricOf(*engine, metrics::kRequestsRejected, "oom"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kOutOfMemory, "admission"), 1);
}

TEST(StartUpTest, ABucketWhoseCompilationFailsLeavesItDegradedUntilItIsWarmedAgain) {
  std::atomic<bool> broken = true;
  Config config = SmallConfig();
  config.buckets = {{64, 64}, {72, 64}};
  const auto watch = [&](const graph::Graph& graph) {
    return broken && DrawsSide(graph, 72) ? absl::InternalError("no kernel today")
                                          : absl::OkStatus();
  };
  LocalEngine engine(config, WatchedBackend::Create(watch), SystemClock());
  ASSERT_OK(engine.Load());
  EXPECT_EQ(engine.state(), State::kDegraded);
  EXPECT_THAT(engine.status().reason, HasSubstr("72x64"));
  EXPECT_THAT(engine.status().reason, HasSubstr("no kernel today"));
  EXPECT_EQ(Only<Completed>(RunOn(engine, SmallSpec())).size(), 1u);
  EXPECT_EQ(GetReason(SubmitTo(engine, SpecOf({72, 64}, kExact))), "BUCKET_COLD");

  broken = false;
  ASSERT_OK_AND_ASSIGN(const WarmOutcome outcome,
                       engine.graphs().Warm({.all = true}, /*dry_run=*/false, Always));
  EXPECT_EQ(outcome.failed, 0);
  EXPECT_EQ(outcome.compiled, 1);
  EXPECT_EQ(engine.state(), State::kReady);
  EXPECT_EQ(MetricOf(engine, metrics::kGraphCompilations, "retry"), 1);
  EXPECT_EQ(Only<Completed>(RunOn(engine, SpecOf({72, 64}, kExact))).size(), 1u);
}

TEST(StartUpTest, ServesNothingWhereNoBucketCanBeHad) {
  const auto watch = [](const graph::Graph&) { return absl::InternalError("no kernels at all"); };
  LocalEngine engine(SmallConfig(), WatchedBackend::Create(watch), SystemClock());
  ASSERT_OK(engine.Load());
  EXPECT_EQ(engine.state(), State::kDegraded);
  EXPECT_THAT(ReadinessOf(engine), ElementsAre(false));
}

TEST(StartUpTest, ADrainWhileWarmingEndsItAfterTheRunningCompilations) {
  Gate gate;
  gate.Close();
  const auto watch = [&](const graph::Graph&) {
    gate.Pass();
    return absl::OkStatus();
  };
  LocalEngine engine(SmallConfig(), WatchedBackend::Create(watch), SystemClock());
  absl::Status loaded;
  std::thread loader([&] { loaded = engine.Load(); });
  gate.WaitForSomebody();
  EXPECT_EQ(engine.state(), State::kWarming);
  EXPECT_EQ(GetReason(SubmitTo(engine, SmallSpec())), "LOADING");
  engine.Drain(SystemClock().Monotonic());
  EXPECT_EQ(engine.state(), State::kDraining);
  gate.Open();
  loader.join();
  EXPECT_EQ(loaded.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine.state(), State::kDraining);
  EXPECT_LE(CompilationsOf(engine), 2);  // two of the six: on two threads
}

TEST(StartUpTest, StrictModeCompilesNothingOnceItIsReady) {
  Config config = SmallConfig();
  config.forbid_compile_after_ready = true;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  const int64_t compiled = CompilationsOf(*engine);
  const absl::Status refused = SubmitTo(*engine, SpecOf({72, 64}, pipeline::BucketPolicy::kColdOk));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetReason(refused), "COMPILE_FORBIDDEN");
  std::vector<absl::Status> failures;
  const auto note = [&](const WarmProgress& step) {
    if (!step.entry.status.ok()) failures.push_back(step.entry.status);
    return true;
  };
  ASSERT_OK_AND_ASSIGN(const WarmOutcome warmed,
                       engine->graphs().Warm({.buckets = {{72, 64}}}, /*dry_run=*/false, note));
  EXPECT_EQ(warmed.failed, 4);  // the UNet's step and the VAE's three; the others were ready
  EXPECT_EQ(warmed.ready_before, 3);
  for (const absl::Status& failure : failures) {
    EXPECT_THAT(failure, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("72x64"), HasSubstr("--forbid-compile"))));
    EXPECT_EQ(GetReason(failure), "COMPILE_FORBIDDEN");
  }
  EXPECT_EQ(engine->status().buckets.size(), 1u);
  EXPECT_EQ(CompilationsOf(*engine), compiled);
}

}  // namespace
}  // namespace latentd::engine
