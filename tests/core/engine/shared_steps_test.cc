// Pictures of several requests in one evaluation, on a device that works later than it is told:
// each is what it is alone, whatever comes, goes or fails beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/engine/loop/picture_loop.h"
#include "core/image/encode.h"
#include "core/pipeline/picture/finite.h"
#include "core/pipeline/spec/request/inputs.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

struct Asked {
  int steps = 2;
  double guidance_scale = 1;
  int pictures = 1;
  std::string scheduler = "euler";
  uint64_t seed = 7;
  pipeline::GuidanceInterval guidance_interval = {};
  std::string image = {};           // encoded
  std::string mask = {};            // likewise
  std::vector<double> sigmas = {};  // instead of steps
  bool stops_guidance = false;      // once it adds little
};

class SharedStepsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = std::make_unique<SeparateDevice>();
    model_ = std::make_unique<LoopModel>(*device_, std::vector<int>{1, 2, 4});
    model_->MakeReady({64, 64});
  }
  static void TearDownTestSuite() {
    model_.reset();
    device_.reset();
  }
  SharedStepsTest() : allocations_(device_->allocations()) { MakeLoop(); }
  ~SharedStepsTest() override {
    model_->on_run = {};
    EXPECT_EQ(loop_->state_bytes(), 0);
    loop_.reset();
    EXPECT_EQ(device_->allocations(), allocations_);
  }

  void MakeLoop() {
    const auto warn = [this](absl::string_view what) { warnings_.emplace_back(what); };
    loop_ = std::make_unique<PictureLoop>(PictureLoop::Options{.units = {.warn = warn}}, *device_,
                                          metrics_, clock_);
  }

  std::shared_ptr<Job> Admit(const std::shared_ptr<EventSink>& sink, const Asked& asked) {
    return Admit(*model_, sink, asked);
  }
  std::shared_ptr<Job> Admit(const LoopModel& model, const std::shared_ptr<EventSink>& sink,
                             const Asked& asked) {
    GenerateSpec spec = SmallSpec(asked.steps);
    spec.picture.guidance_scale = asked.guidance_scale;
    spec.picture.num_images_per_prompt = asked.pictures;
    spec.picture.scheduler.name = asked.scheduler;
    spec.picture.seed = asked.seed;
    spec.picture.guidance_interval = asked.guidance_interval;
    if (asked.stops_guidance) spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
    if (!asked.image.empty()) {
      spec.inputs = std::make_shared<const pipeline::Inputs>(
          pipeline::Inputs{.image = asked.image, .mask_image = asked.mask});
      spec.picture.strength = 0.6;
    }
    spec.picture.sigmas = asked.sigmas;
    if (!asked.sigmas.empty()) spec.picture.num_inference_steps.reset();
    auto job = model.MakeJob(*loop_, sink, std::move(spec), clock_);
    EXPECT_OK(loop_->Admit(job, 0));
    return job;
  }
  static std::vector<std::string> FilesOf(RecordingSink& sink) {
    std::vector<std::string> files;
    for (const Image& image : Only<Image>(sink.WaitForEnd())) files.push_back(image.bytes);
    return files;
  }
  std::vector<std::string> Draw(const Asked& asked) {
    const auto sink = std::make_shared<RecordingSink>();
    Admit(sink, asked);
    return FilesOf(*sink);
  }
  // Number of evaluations, and of the rows that pictures had in them.
  double Evaluations() { return HistogramOf(registry_, metrics::kStepRows).first; }
  double Rows() { return HistogramOf(registry_, metrics::kStepRows).second; }

  static inline std::unique_ptr<SeparateDevice> device_;
  static inline std::unique_ptr<LoopModel> model_;
  const size_t allocations_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  std::vector<std::string> warnings_;  // the loop's thread's
  std::unique_ptr<PictureLoop> loop_;
};

TEST_F(SharedStepsTest, PicturesOfOneRequestAreDrawnSideBySide) {
  const std::vector<std::string> files = Draw({.steps = 5, .pictures = 4});
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(Evaluations(), 5);
  EXPECT_EQ(Rows(), 4 * 5);
  EXPECT_EQ(Draw({.steps = 5}).at(0), files[0]);
}

TEST_F(SharedStepsTest, ARequestJoinsAnotherOneAtItsNextStepAndEndsBeforeIt) {
  const Asked longer{.steps = 12, .guidance_scale = 5, .scheduler = "dpmpp_2m"};
  const Asked shorter{.steps = 3, .guidance_scale = 7, .scheduler = "euler_ancestral", .seed = 9};
  const auto alone = std::make_pair(Draw(longer), Draw(shorter));
  const auto late = std::make_shared<RecordingSink>();
  bool late_was_done = false;
  const auto first = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps) return;
    if (progress->step == 4) Admit(late, shorter);
    if (progress->step != 12) return;
    late->WaitFor<Image>();  // the encoder has a thread of its own
    late_was_done = !Only<Image>(late->events()).empty();
  });
  const double evaluations = Evaluations();
  Admit(first, longer);
  EXPECT_EQ(FilesOf(*first), alone.first);
  EXPECT_EQ(FilesOf(*late), alone.second);
  EXPECT_TRUE(late_was_done);
  EXPECT_EQ(Evaluations() - evaluations, 12);
}

// Two of its pictures have all rows of an evaluation, and one of them rests.
TEST_F(SharedStepsTest, AShortRequestPassesALongOneInALaneThatIsFull) {
  const Asked longer{.steps = 30, .guidance_scale = 5, .pictures = 4};
  const Asked shorter{.steps = 2, .guidance_scale = 7, .scheduler = "euler_ancestral", .seed = 9};
  const auto alone = std::make_pair(Draw(longer), Draw(shorter));
  const auto late = std::make_shared<RecordingSink>();
  bool late_was_through = false;
  const auto first = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps) return;
    if (progress->step == 4 && Only<Queued>(late->events()).empty()) Admit(late, shorter);
    if (progress->step != 20 || late_was_through) return;
    const std::vector<Progress> steps = Only<Progress>(late->events());
    late_was_through = !steps.empty() && steps.back().step == 2;
  });
  Admit(first, longer);
  EXPECT_EQ(FilesOf(*first), alone.first);
  EXPECT_EQ(FilesOf(*late), alone.second);
  EXPECT_TRUE(late_was_through);
}

TEST_F(SharedStepsTest, AStepOutsideTheGuidanceIntervalHasOneRow) {
  Draw({.steps = 4, .guidance_scale = 5, .guidance_interval = {0.25, 0.5}});
  EXPECT_EQ(Evaluations(), 4);
  EXPECT_EQ(Rows(), 1 + 2 + 1 + 1);
}

TEST_F(SharedStepsTest, RowsAreSkippedOnceGuidanceAddsLittle) {
  constexpr int kSteps = 8;
  const Asked stops{.steps = kSteps, .guidance_scale = 1.1, .pictures = 2, .stops_guidance = true};
  const auto sink = std::make_shared<RecordingSink>();
  Admit(sink, stops);
  const std::vector<std::string> alone = FilesOf(*sink);
  const auto completed = Only<Completed>(sink->events());
  ASSERT_EQ(completed.size(), 1u);
  const std::vector<int>& after = completed[0].guidance_stopped_after;
  ASSERT_EQ(after.size(), 2u);
  EXPECT_THAT(after, Each(AllOf(Ge(3), Lt(kSteps))));
  const int skipped = 2 * kSteps - after[0] - after[1];
  EXPECT_EQ(completed[0].skipped_rows, skipped);
  EXPECT_EQ(Evaluations(), kSteps);
  EXPECT_EQ(Rows(), 2 * 2 * kSteps - skipped);
  EXPECT_EQ(MetricOf(registry_, metrics::kSkippedRows), skipped);

  const auto other = std::make_shared<RecordingSink>(), again = std::make_shared<RecordingSink>();
  Admit(other, {.steps = kSteps + 3, .guidance_scale = 5, .pictures = 2});
  Admit(again, stops);
  EXPECT_EQ(FilesOf(*again), alone);
  const auto of_other = Only<Completed>(other->WaitForEnd());
  ASSERT_EQ(of_other.size(), 1u);
  EXPECT_TRUE(of_other[0].guidance_stopped_after.empty());  // it does not ask
  EXPECT_EQ(of_other[0].skipped_rows, 0);
}

TEST_F(SharedStepsTest, TimesOfASharedStepAreEachRequestsOnce) {
  model_->on_run.work = [this] {
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  const auto sink = std::make_shared<RecordingSink>();
  Admit(sink, {.steps = 5, .pictures = 4});
  const auto completed = Only<Completed>(sink->WaitForEnd());
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kSteps), absl::Seconds(5));
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kDecode), absl::Seconds(4));
}

// The memory of an ended request is free for the next, and its rows are computed without a reader.
TEST_F(SharedStepsTest, ACancelledRequestLeavesTheOthersAsTheyAre) {
  const Asked asked{.steps = 10, .guidance_scale = 5};
  const std::vector<std::string> alone = Draw(asked);
  std::shared_ptr<Job> cancelled;
  const auto leaving = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->step == 3) loop_->Cancel(cancelled->handle);
  });
  const auto staying = std::make_shared<RecordingSink>();
  cancelled = model_->MakeJob(*loop_, leaving, 1, /*steps=*/150, clock_);
  ASSERT_OK(loop_->Admit(cancelled, 0));
  Admit(staying, asked);
  EXPECT_EQ(FilesOf(*staying), alone);
  EXPECT_EQ(Only<Failed>(leaving->WaitForEnd()).size(), 1u);
}

// Pictures that come without a pause would keep a small lane for ever.
TEST_F(SharedStepsTest, ALaneTakesMoreRowsOnceTheirGraphIsThereAndItsPicturesAreThrough) {
  const Asked first{.steps = 8}, next{.steps = 20, .seed = 9};
  const std::vector<std::string> alone = Draw(next);
  LoopModel model(*device_, {1, 2, 4});
  model.MakeReady({64, 64}, {1, 2});
  std::vector<std::shared_ptr<RecordingSink>> waiting(4);
  const auto watch = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps || progress->step != 1) return;
    model.MakeReady({64, 64}, {4});
    for (auto& sink : waiting) {
      sink = std::make_shared<RecordingSink>();
      Admit(model, sink, next);
    }
  });
  const double evaluations = Evaluations(), rows = Rows();
  Admit(model, watch, first);
  watch->WaitForEnd();
  for (const auto& sink : waiting) EXPECT_EQ(FilesOf(*sink), alone);
  EXPECT_GT(Rows() - rows, 2 * (Evaluations() - evaluations));
  // It lets go of the model's graphs.
  MakeLoop();
}

// Its first latents overflow.
TEST_F(SharedStepsTest, ARequestFailsAloneWhosePictureIsNotFinite) {
  const Asked sound{.steps = 10, .guidance_scale = 5};
  const std::vector<std::string> alone = Draw(sound);
  const auto broken = std::make_shared<RecordingSink>();
  const auto watch = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps || progress->step != 2) return;
    Admit(broken, {.sigmas = {3e38, 1, 0}});
  });
  const double evaluations = Evaluations();
  Admit(watch, sound);
  EXPECT_EQ(FilesOf(*watch), alone);
  const auto failed = Only<Failed>(broken->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(GetReason(failed[0].status), pipeline::kNotFinite);
  EXPECT_EQ(Evaluations() - evaluations, 10);
}

// An error of the device fails the whole evaluation: it is unknown whose rows are right.
TEST_F(SharedStepsTest, AnEvaluationThatFailsFailsAllOfItsRequests) {
  const auto first = std::make_shared<RecordingSink>(), second = std::make_shared<RecordingSink>();
  std::atomic<bool> fails = false;
  model_->on_run.work = [&] {
    return fails ? absl::InternalError("the device fell") : absl::OkStatus();
  };
  const auto watch = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->step == 5) fails = true;
  });
  Admit(watch, {.steps = 150});
  Admit(first, {.steps = 150});
  const std::shared_ptr<RecordingSink> both[] = {watch, first};
  for (const auto& sink : both) {
    const auto failed = Only<Failed>(sink->WaitForEnd());
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].status.message(), "the device fell");
  }
  fails = false;  // a unit that was enqueued behind the failed one may still run
  Admit(second, {.steps = 2});
  EXPECT_EQ(Only<Completed>(second->WaitForEnd()).size(), 1u);
  model_->on_run.work = nullptr;
}

// By who binds the steps, and by who enqueues them.
TEST_F(SharedStepsTest, WithoutMemoryForAllRowsPicturesTakeTurnsAndNobodyFails) {
  const std::vector<std::string> alone = Draw({.steps = 5, .scheduler = "euler_ancestral"});
  for (auto* refuse : {&model_->on_run.bind_step, &model_->on_run.refuse_step}) {
    *refuse = [](int rows) {
      return rows == 4 ? absl::ResourceExhaustedError("no memory") : absl::OkStatus();
    };
    const double evaluations = Evaluations();
    const std::vector<std::string> files =
        Draw({.steps = 5, .pictures = 4, .scheduler = "euler_ancestral"});
    ASSERT_EQ(files.size(), 4u);
    EXPECT_EQ(files[0], alone[0]);
    EXPECT_EQ(files[3], Draw({.steps = 5, .scheduler = "euler_ancestral", .seed = 10}).at(0));
    EXPECT_EQ(Evaluations() - evaluations, 2 * 5 + 5);
    *refuse = nullptr;
  }
  EXPECT_EQ(MetricOf(registry_, metrics::kOutOfMemory), 0);
  loop_.reset();
  EXPECT_THAT(warnings_, Each(HasSubstr("no memory for a step of 4 rows at 64x64")));
  EXPECT_EQ(warnings_.size(), 2u);
  MakeLoop();
}

// Even in the fewest rows that its picture needs.
TEST_F(SharedStepsTest, ARequestFailsAloneThatThereIsNoMemoryFor) {
  const Asked asked{.steps = 10};
  const std::vector<std::string> alone = Draw(asked);
  std::atomic<int> to_refuse = 0;
  std::atomic<bool> shared = false;
  model_->on_run.refuse_step = [&](int rows) {
    if (rows > 1 && !shared.exchange(true)) to_refuse = 1;
    const bool refused = rows > 1 || to_refuse.exchange(0) > 0;
    return refused ? absl::ResourceExhaustedError("no memory") : absl::OkStatus();
  };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto first = std::make_shared<WatchedSink>([&](const Event& event) {
    if (!std::holds_alternative<Progress>(event) || !sinks.empty()) return;
    for (int i = 0; i < 2; ++i) Admit(sinks.emplace_back(std::make_shared<RecordingSink>()), asked);
  });
  Admit(first, asked);
  first->WaitForEnd();
  sinks.push_back(first);
  int failed = 0;
  for (const auto& sink : sinks) {
    const std::vector<Event> events = sink->WaitForEnd();
    failed += static_cast<int>(Only<Failed>(events).size());
    if (Only<Failed>(events).empty()) {
      EXPECT_EQ(FilesOf(*sink), alone);
    }
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(MetricOf(registry_, metrics::kOutOfMemory, "steps"), 1);
}

// Without a further request that would notice.
TEST_F(SharedStepsTest, WhatCannotBeEnqueuedHoldsNothing) {
  const size_t before = device_->allocations();
  std::atomic<int> runs = 0;
  model_->on_run.enqueue = [&] { ++runs; };
  model_->on_run.refuse = [&] {
    return runs == 4 ? absl::ResourceExhaustedError("no more") : absl::OkStatus();
  };
  const auto sink = std::make_shared<RecordingSink>();
  Admit(sink, {.steps = 3});
  ASSERT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
  sink->Clear();
  while (device_->allocations() != before) std::this_thread::yield();
  EXPECT_EQ(loop_->state_bytes(), 0);
}

TEST_F(SharedStepsTest, CountsLanesAsLongAsPicturesAreInThem) {
  std::atomic<int> lanes = 0;
  std::atomic<int64_t> bytes = 0;
  const auto watch = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->step != 2) return;
    lanes = loop_->lanes();
    bytes = loop_->lane_bytes();
  });
  Admit(watch, {.steps = 10});
  ASSERT_EQ(Only<Completed>(watch->WaitForEnd()).size(), 1u);
  EXPECT_EQ(lanes, 1);
  EXPECT_GT(bytes, 0);
  while (loop_->lanes() != 0) std::this_thread::yield();
  EXPECT_EQ(loop_->lane_bytes(), 0);
}

// Requests come when others are at some step, and are cancelled at some step.
TEST_F(SharedStepsTest, WhoeverComesAndGoesEachPictureIsWhatItIsAlone) {
  const std::string image = Draw({.seed = 10}).at(0);
  const std::string mask = image::Encode({2, 1, {255, 255, 255, 0, 0, 0}}, {}).value();
  const std::vector<Asked> kinds = {
      {.steps = 3},
      {.steps = 7, .guidance_scale = 4, .seed = 1},
      {.steps = 2, .guidance_scale = 6, .pictures = 2, .seed = 2},
      {.steps = 5, .scheduler = "heun", .seed = 3},
      {.steps = 4, .pictures = 3, .scheduler = "lcm", .seed = 4},
      {.steps = 6,
       .guidance_scale = 5,
       .scheduler = "dpmpp_2m",
       .seed = 5,
       .guidance_interval = {0.4, 0.7}},
      {.steps = 4,
       .guidance_scale = 5,
       .pictures = 2,
       .scheduler = "euler_ancestral",
       .seed = 6,
       .guidance_interval = {0, 0.5}},
      {.steps = 6, .scheduler = "ddim", .seed = 8, .image = image},
      {.steps = 5, .guidance_scale = 3, .scheduler = "dpmpp_2m_sde", .seed = 9, .image = image},
      {.steps = 6, .guidance_scale = 3, .seed = 13, .image = image, .mask = mask},
      {.steps = 5,
       .pictures = 2,
       .scheduler = "euler_ancestral",
       .seed = 14,
       .image = image,
       .mask = image},
      // Noise at every evaluation but the last, of which a step has two, and at every second one.
      {.steps = 3, .guidance_scale = 2, .scheduler = "DPM++ SDE Karras", .seed = 11},
      {.steps = 3, .pictures = 2, .scheduler = "dpmpp_2s_a", .seed = 12}};
  std::vector<std::vector<std::string>> alone;
  for (const Asked& asked : kinds) alone.push_back(Draw(asked));
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<size_t, std::shared_ptr<RecordingSink>>> wanted;
    std::vector<std::shared_ptr<RecordingSink>> cancelled;
    for (int i = 0; i < 8; ++i) {
      const size_t kind = random() % kinds.size();
      const auto sink = std::make_shared<RecordingSink>();
      const auto job = Admit(sink, kinds[kind]);
      if (random() % 2 == 0) sink->WaitFor<Progress>();
      if (random() % 4 == 0) {
        loop_->Cancel(job->handle);
        cancelled.push_back(sink);
      } else {
        wanted.emplace_back(kind, sink);
      }
    }
    for (const auto& [kind, sink] : wanted) EXPECT_EQ(FilesOf(*sink), alone[kind]) << seed;
    for (const auto& sink : cancelled) sink->WaitForEnd();
  }
}

}  // namespace
}  // namespace latentd::engine
