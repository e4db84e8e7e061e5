// The engine on the demo checkpoint, with small pictures and few steps.
#include "core/engine/local_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/engine/api/config.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/api/status.h"
#include "core/engine/engine.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/latents_file.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/inputs.h"
#include "tests/support/recording_sink.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// As servers run by default, but for the size: guidance, and the refiner.
Config DemoConfig() {
  Config config = EnsembleConfig();
  config.rows = {1, 2};
  config.priorities = {.everyone = 1, .named = {{"renderer", 2}}};
  return config;
}

// One engine for all tests, since loading takes longer than any of them.
class LocalEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_OK_AND_ASSIGN(engine_, Engine::Create(DemoConfig(), SystemClock()));
    ASSERT_OK(engine_->Load());
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static std::vector<Event> Run(GenerateSpec spec) { return RunOn(*engine_, std::move(spec)); }

  static inline std::unique_ptr<Engine> engine_;
};

TEST_F(LocalEngineTest, TellsOfARequestFromQueuedToCompleted) {
  const std::vector<Event> events = Run(SmallSpec());
  ASSERT_GE(events.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<Queued>(events.front()));
  EXPECT_TRUE(std::holds_alternative<Started>(events[1]));
  EXPECT_TRUE(std::holds_alternative<Image>(events[events.size() - 2]));
  EXPECT_TRUE(std::holds_alternative<Completed>(events.back()));
}

TEST_F(LocalEngineTest, CountsStepsUpToTheirTotal) {
  std::vector<int> steps;
  for (const Progress& progress : Only<Progress>(Run(SmallSpec(3)))) {
    EXPECT_EQ(progress.total_steps, 3);
    if (progress.stage == Stage::kSteps) steps.push_back(progress.step);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
}

TEST_F(LocalEngineTest, GivesThePictureInTheFormatAskedFor) {
  const auto images = Only<Image>(Run(SmallSpec()));
  ASSERT_EQ(images.size(), 1u);
  EXPECT_THAT(images[0].bytes, StartsWith("\x89PNG"));
  EXPECT_EQ(images[0].seed, 7u);
  GenerateSpec raw = SmallSpec();
  raw.output.format = image::Format::kRawRgb8;
  EXPECT_EQ(Only<Image>(Run(raw)).at(0).bytes.size(), 64u * 64 * 3);
}

// Nothing is decoded for them, and they are fewer bytes than a picture could have.
TEST_F(LocalEngineTest, GivesLatentsWhereTheyAreAskedFor) {
  GenerateSpec spec = SmallSpec();
  spec.output.format = image::Format::kLatent;
  spec.max_response_bytes = 8 * 8 * 4 * 4 + 200;
  const auto events = Run(spec);
  const auto images = Only<Image>(events);
  ASSERT_EQ(images.size(), 1u);
  EXPECT_TRUE(
      pipeline::ReadLatentsFile(images[0].bytes, pipeline::ImageLatentsShape(1, 4, {8, 8})).ok());
  EXPECT_EQ(images[0].size, (pipeline::Size{64, 64}));
  ASSERT_EQ(Only<Completed>(events).size(), 1u);
  EXPECT_EQ(TimeOf(Only<Completed>(events)[0].timings, Stage::kDecode), absl::ZeroDuration());
  spec.max_response_bytes = 8 * 8 * 4 * 4;
  EXPECT_EQ(GetReason(SubmitTo(*engine_, spec)), "RESPONSE_TOO_LARGE");
}

TEST_F(LocalEngineTest, StartsFromLatentsThatAreGiven) {
  GenerateSpec spec = SmallSpec();
  spec.output.embed_parameters = false;
  const std::string drawn = Only<Image>(Run(spec)).at(0).bytes;
  const auto from = [&](uint64_t seed) {
    spec.inputs = testing::LatentsInput(
        pipeline::LatentsFile(noise::NoiseGenerator(seed).Normal({1, 4, 8, 8}), {8, 8}));
    return Only<Image>(Run(spec)).at(0).bytes;
  };
  EXPECT_EQ(from(*spec.picture.seed), drawn);
  EXPECT_NE(from(*spec.picture.seed + 1), drawn);
}

TEST_F(LocalEngineTest, GivesTheSameBytesForTheSameSeed) {
  EXPECT_EQ(Only<Image>(Run(SmallSpec())).at(0).bytes, Only<Image>(Run(SmallSpec())).at(0).bytes);
}

TEST_F(LocalEngineTest, DrawsEachPictureOfARequestFromItsOwnSeed) {
  GenerateSpec three = SmallSpec();
  three.picture.num_images_per_prompt = 3;
  const auto images = Only<Image>(Run(three));
  ASSERT_EQ(images.size(), 3u);
  GenerateSpec last = SmallSpec();
  last.picture.seed = 9;
  last.output.embed_parameters = false;
  three.output.embed_parameters = false;
  EXPECT_EQ(Only<Image>(Run(three)).at(2).bytes, Only<Image>(Run(last)).at(0).bytes);
}

TEST_F(LocalEngineTest, SaysWhatWasReallyUsed) {
  GenerateSpec spec = SmallSpec();
  spec.picture.seed.reset();
  spec.picture.guidance_scale.reset();
  const auto completed = Only<Completed>(Run(spec));
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].effective.guidance_scale, 5.0);
  EXPECT_EQ(completed[0].effective.scheduler.name, "euler");
  EXPECT_EQ(completed[0].effective.seeds.size(), 1u);
  EXPECT_EQ(completed[0].executed_size, (pipeline::Size{64, 64}));
}

TEST_F(LocalEngineTest, WarnsOfParametersWithoutEffect) {
  GenerateSpec spec = SmallSpec();
  spec.picture.guidance_scale = 1;
  spec.picture.negative_prompt = "blue";
  spec.picture.eta = 0.5;
  const auto completed = Only<Completed>(Run(spec));
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_THAT(completed[0].warnings, ElementsAre(HasSubstr("negative_prompt has no effect"),
                                                 HasSubstr("eta has no effect")));
  spec.picture = SmallSpec().picture;
  spec.picture.negative_prompt = "blue";
  spec.picture.guidance_scale = 2;
  spec.picture.scheduler.name = "ddim";
  spec.picture.eta = 0.5;
  const auto used = Only<Completed>(Run(spec));
  ASSERT_EQ(used.size(), 1u);
  EXPECT_THAT(used[0].warnings, ElementsAre());
  // The effective parameters, sent again.
  spec.picture = used[0].effective;
  EXPECT_THAT(Only<Completed>(Run(spec)).at(0).warnings, ElementsAre());
}

TEST_F(LocalEngineTest, RefinesWithTheSecondModel) {
  GenerateSpec spec = SmallSpec(5);
  spec.picture.refine = true;
  bool refined = false;
  std::vector<std::string> texts;
  for (const Progress& progress : Only<Progress>(Run(spec))) {
    refined |= progress.stage == Stage::kSteps && progress.model == "refiner";
    if (progress.stage == Stage::kText) texts.push_back(progress.model);
  }
  EXPECT_TRUE(refined);
  EXPECT_THAT(texts, ElementsAre("base", "refiner"));
}

TEST_F(LocalEngineTest, NamesEveryBadFieldBeforeTheQueue) {
  GenerateSpec spec = SmallSpec(0);
  spec.picture.width = 7;
  spec.output.quality = 0;
  const auto refused = engine_->Submit(spec, std::make_shared<RecordingSink>());
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_EQ(GetFieldViolations(refused.status()).size(), 3u);
}

TEST_F(LocalEngineTest, RefusesAPriorityThatTheCallerMayNotAskFor) {
  EXPECT_EQ(engine_->capabilities().priorities.MaxOf("renderer"), 2);
  GenerateSpec spec = SmallSpec();
  spec.priority = 2;
  spec.caller = "batch";
  const auto refused = engine_->Submit(spec, std::make_shared<RecordingSink>());
  EXPECT_THAT(GetFieldViolations(refused.status()),
              ElementsAre(FieldViolation{"priority", "must be -3 to 1 for this caller, is 2"}));
  spec.caller = "renderer";
  EXPECT_EQ(Only<Completed>(Run(spec)).size(), 1u);
}

TEST_F(LocalEngineTest, RefusesAnImageThatIsNone) {
  GenerateSpec spec = SmallSpec();
  spec.inputs = testing::ImageInput("not a picture");
  EXPECT_THAT(engine_->Submit(spec, std::make_shared<RecordingSink>()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("image")));
}

TEST_F(LocalEngineTest, RefusesWhenTheQueueIsFull) {
  GenerateSpec many = SmallSpec(150);
  many.picture.num_images_per_prompt = 4;
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(many, sink));
  const auto refused = engine_->Submit(SmallSpec(), std::make_shared<RecordingSink>());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(GetReason(refused.status()), "QUEUE_FULL");
  EXPECT_TRUE(GetRetryDelay(refused.status()).has_value());
  engine_->Cancel(handle);
  sink->WaitForEnd();
}

TEST_F(LocalEngineTest, RefusesWhatCouldBeMoreThanTheCallerTakes) {
  GenerateSpec spec = SmallSpec();
  spec.max_response_bytes = 64 * 64 * 3;
  const absl::Status refused = SubmitTo(*engine_, spec);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("12288")));
  EXPECT_EQ(GetReason(refused), "RESPONSE_TOO_LARGE");
  EXPECT_THAT(GetFacts(refused), Contains(ErrorFact{"limit", "12288"}));
  spec.max_response_bytes = 1 << 20;
  EXPECT_EQ(Only<Completed>(Run(spec)).size(), 1u);
}

TEST_F(LocalEngineTest, CountsWhatRequestsDid) {
  const auto value = [](const metrics::Family& family, const std::string& label = "") {
    return MetricOf(*engine_, family, label);
  };
  const double steps = value(metrics::kSteps, "base");
  const double images = value(metrics::kImages, "64x64");
  const double pixels = value(metrics::kPixels);
  const double invalid = value(metrics::kRequestsRejected, "invalid");
  Run(SmallSpec(3));
  EXPECT_EQ(value(metrics::kSteps, "base"), steps + 3);
  EXPECT_EQ(value(metrics::kImages, "64x64"), images + 1);
  EXPECT_EQ(value(metrics::kPixels), pixels + 64 * 64);
  EXPECT_GT(value(metrics::kBucketLastUsed, "64x64"), 0);
  SubmitTo(*engine_, SmallSpec(0)).IgnoreError();
  EXPECT_EQ(value(metrics::kRequestsRejected, "invalid"), invalid + 1);
  EXPECT_EQ(value(metrics::kQueueDepth), 0);
  EXPECT_EQ(value(metrics::kRequestsInFlight), 0);
  EXPECT_EQ(value(metrics::kQueueCapacity), 4);
}

TEST_F(LocalEngineTest, ShowsTheLaneThatPicturesAreIn) {
  double lanes = 0, bytes = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps || progress->step != 2) return;
    engine_->RefreshMetrics();
    lanes = MetricOf(*engine_, metrics::kLanes);
    bytes = MetricOf(*engine_, metrics::kLaneBytes);
  });
  ASSERT_OK(engine_->Submit(SmallSpec(/*steps=*/10), sink));
  sink->WaitForEnd();
  EXPECT_EQ(lanes, 1);
  EXPECT_GT(bytes, 0);
}

TEST_F(LocalEngineTest, ShowsArtifactsAmongTheMemoryThatIsHeld) {
  engine_->RefreshMetrics();
  const int64_t bytes = engine_->memory().artifact_bytes;
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(MetricOf(*engine_, metrics::kMemoryBytes, "artifacts"), bytes);
}

TEST_F(LocalEngineTest, CountsWhatRequestsBringAsMemoryUntilTheyEnd) {
  GenerateSpec spec = SmallSpec();
  spec.inputs = testing::ImageInput(Only<Image>(Run(SmallSpec())).at(0).bytes);
  spec.picture.strength = 1;
  const auto bytes = static_cast<int64_t>(spec.inputs->bytes());
  std::vector<int64_t> held;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Progress>(event)) return;
    engine_->RefreshMetrics();
    held.push_back(engine_->memory().waiting_image_bytes);
    EXPECT_EQ(MetricOf(*engine_, metrics::kMemoryBytes, "waiting_images"), held.back());
  });
  ASSERT_OK(engine_->Submit(spec, sink));
  sink->WaitForEnd();
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held.front(), bytes);
  EXPECT_EQ(engine_->memory().waiting_image_bytes, 0);
}

TEST_F(LocalEngineTest, WhatIsRefusedHoldsNothing) {
  GenerateSpec many = SmallSpec(150);
  many.picture.num_images_per_prompt = 4;
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(many, sink));
  GenerateSpec spec = SmallSpec();
  spec.inputs = testing::LatentsInput(
      pipeline::LatentsFile(noise::NoiseGenerator(1).Normal({1, 4, 8, 8}), {8, 8}));
  EXPECT_EQ(GetReason(SubmitTo(*engine_, spec)), "QUEUE_FULL");
  EXPECT_EQ(engine_->memory().waiting_image_bytes, 0);
  engine_->Cancel(handle);
  sink->WaitForEnd();
}

TEST_F(LocalEngineTest, CountsFinishedPicturesAsMemoryUntilTheyAreRead) {
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(engine_->Submit(SmallSpec(), sink));
  std::vector<Event> unread = sink->WaitForEnd();
  const auto bytes = static_cast<int64_t>(Only<Image>(unread).at(0).bytes.size());
  EXPECT_EQ(engine_->memory().result_bytes, bytes);
  engine_->RefreshMetrics();
  EXPECT_EQ(MetricOf(*engine_, metrics::kMemoryBytes, "results"), bytes);
  unread.clear();
  sink->Clear();
  EXPECT_EQ(engine_->memory().result_bytes, 0);
  EXPECT_FALSE(engine_->WaitsForReaders());
}

TEST_F(LocalEngineTest, CountsCancelledRequestsByHowFarTheyCame) {
  const double running = MetricOf(*engine_, metrics::kRequestsCancelled, "running");
  const double queued = MetricOf(*engine_, metrics::kRequestsCancelled, "queued");
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  GenerateSpec all_rows = SmallSpec(150);  // so that the other one waits
  all_rows.picture.guidance_scale = 5;
  ASSERT_OK_AND_ASSIGN(const uint64_t runs, engine_->Submit(all_rows, first));
  ASSERT_OK_AND_ASSIGN(const uint64_t waits, engine_->Submit(SmallSpec(150), second));
  first->WaitFor<Progress>();
  engine_->Cancel(waits);
  second->WaitForEnd();
  engine_->Cancel(runs);
  first->WaitForEnd();
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsCancelled, "running"), running + 1);
  EXPECT_EQ(MetricOf(*engine_, metrics::kRequestsCancelled, "queued"), queued + 1);
}

TEST_F(LocalEngineTest, StopsACancelledRequestAndServesTheNext) {
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(SmallSpec(150), sink));
  sink->WaitFor<Progress>();
  engine_->Cancel(handle);
  const std::vector<Event> events = sink->WaitForEnd();
  ASSERT_EQ(Only<Failed>(events).size(), 1u);
  EXPECT_EQ(Only<Failed>(events)[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Only<Completed>(Run(SmallSpec())).size(), 1u);
}

TEST(LocalEngineLifeTest, RefusesRequestsUntilLoaded) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(SmallConfig(), SystemClock()));
  const auto refused = engine->Submit(SmallSpec(), std::make_shared<RecordingSink>());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(GetReason(refused.status()), "LOADING");
}

TEST(LocalEngineLifeTest, FailsToLoadWhatIsNoCheckpoint) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create({.base = "/nowhere"}, SystemClock()));
  EXPECT_THAT(engine->Load(), StatusIs(_, HasSubstr("/nowhere")));
  EXPECT_EQ(engine->state(), State::kFailed);
}

TEST(LocalEngineLifeTest, RefusesAConfigurationOfTheWrongForm) {
  const auto create = [](const std::function<void(Config&)>& change) {
    Config config = SmallConfig();
    change(config);
    return Engine::Create(config, SystemClock()).status();
  };
  EXPECT_THAT(create([](Config& config) {
                config.rows = {1, 17};
              }),
              StatusIs(_, HasSubstr("rows")));
  EXPECT_THAT(create([](Config& config) { config.skipped_passes = {"epilogue"}; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epilogues")));
  EXPECT_THAT(create([](Config& config) { config.backend = "gpu"; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpu")));
  EXPECT_THAT(create([](Config& config) { config.components["vae"] = ComponentMode::kOff; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vae")));
  EXPECT_OK(create([](Config& config) { config.skipped_passes = {"epilogues"}; }));
}

TEST(LocalEngineLifeTest, RefusesWeightsThatDoNotFitIntoTheBudget) {
  Config config = SmallConfig();
  config.memory_bytes = 1000;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  EXPECT_THAT(engine->Load(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000 are available")));
}

TEST(LocalEngineLifeTest, CancelsWhatDoesNotEndWithinTheDrainsDeadline) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(SmallConfig(), SystemClock()));
  ASSERT_OK(engine->Load());
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(engine->Submit(SmallSpec(150), sink));
  engine->Drain(SystemClock().Monotonic());
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(failed[0].status));
  EXPECT_EQ(GetReason(failed[0].status), "DRAINING");
  EXPECT_EQ(GetReason(engine->Submit(SmallSpec(), sink).status()), "DRAINING");
}

}  // namespace
}  // namespace latentd::engine
