// Pictures whose evaluations read the deep features of earlier ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/backends/bound_graph.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/plan/plan.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One letter for each evaluation of the stages: F for full, s for shallow.
std::string PatternOf(int interval, const std::vector<std::vector<int>>& rows) {
  std::vector<PlannedStage> stages;
  for (const std::vector<int>& of_stage : rows) stages.push_back({.rows = of_stage});
  PlanShallow(interval, stages);
  std::string pattern;
  for (const PlannedStage& stage : stages) {
    for (size_t line = 0; line < stage.rows.size(); ++line) {
      pattern += stage.caches() && stage.shallow[line] ? 's' : 'F';
    }
    pattern += '|';
  }
  return pattern;
}

std::vector<int> Rows(int count, int rows = 2) { return std::vector<int>(count, rows); }

TEST(PlanShallowTest, TheFirstThreeTenthsAndTheLastTwoAreFull) {
  EXPECT_EQ(PatternOf(2, {Rows(20)}), "FFFFFFsFsFsFsFsFsFFF|");
  EXPECT_EQ(PatternOf(3, {Rows(20)}), "FFFFFFssFssFssFssFFF|");
  EXPECT_EQ(PatternOf(10, {Rows(20)}), "FFFFFFsssssssssFssFF|");
  EXPECT_EQ(PatternOf(1, {Rows(20)}), "FFFFFFFFFFFFFFFFFFFF|");
}

TEST(PlanShallowTest, OfFewEvaluationsNoneIsShallow) {
  for (int count : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(PatternOf(5, {Rows(count)}), std::string(count, 'F') + "|");
  }
  EXPECT_EQ(PatternOf(5, {Rows(5)}), "FFsFF|");
}

// They have no features to read.
TEST(PlanShallowTest, TheFirstOfAStageAndOneWithMoreRowsAreFull) {
  EXPECT_EQ(PatternOf(4, {Rows(7), Rows(7)}), "FFFFFss|FsssFFF|");
  EXPECT_EQ(PatternOf(4, {{2, 2, 2, 2, 1, 1, 2, 2, 2, 2, 2, 2}}), "FFFFssFsssFF|");
}

// The demo's base, in lanes of up to four rows, whose first row counts are ready.
class FeatureCacheTest : public ::testing::Test {
 protected:
  static LoadOptions Options(bool caches) {
    return {.base = testing::kDemoBase, .row_counts = {1, 2, 4}, .feature_cache = caches};
  }
  static void SetUpTestSuite() {
    rig_ = new Rig(Options(/*caches=*/true), "", backends::cpu::CpuBackend::Create().value());
    for (const DeepFeatures deep : {DeepFeatures::kGiven, DeepFeatures::kRead}) {
      for (int rows : {1, 2, 4}) rig_->kept.push_back(GraphOf(deep, rows));
    }
    for (const GraphHandle& graph : rig_->kept) {
      ASSERT_OK(rig_->pipeline->first().graphs().Get(graph));
    }
  }
  static void TearDownTestSuite() { delete rig_; }

  static GraphHandle GraphOf(DeepFeatures deep, int rows) {
    const StepShape shape{.rows = rows, .height = 72 / 8, .width = 64 / 8, .deep = deep};
    return rig_->pipeline->first().graphs().Find({.shape = shape}).value();
  }
  static ExecutablePointer ExecutableOf(DeepFeatures deep, int rows) {
    return rig_->pipeline->first().graphs().Get(GraphOf(deep, rows)).value();
  }

  static PictureSpec Spec(int interval, int steps = 10, const std::string& scheduler = "euler") {
    PictureSpec spec = SmallSpec();
    spec.num_inference_steps = steps;
    spec.scheduler.name = scheduler;
    spec.guidance_scale = 4;
    if (interval > 0) spec.feature_cache_interval = interval;
    return spec;
  }

  // A picture whose first step is next.
  static std::unique_ptr<Picture> Begin(const PictureSpec& spec) {
    auto picture = rig_->Start(spec);
    EXPECT_OK(testing::RunUnit(*picture));
    EXPECT_EQ(picture->next, UnitKind::kStep);
    return picture;
  }

  // One evaluation of those whose step is next; false: there are none.
  bool Step(const std::vector<Picture*>& pictures) {
    std::vector<Picture*> stepping;
    absl::c_copy_if(pictures, std::back_inserter(stepping),
                    [](const Picture* picture) { return picture->next == UnitKind::kStep; });
    if (stepping.empty()) return false;
    std::vector<bool> shallow;
    for (const Picture* picture : stepping) shallow.push_back(picture->next_is_shallow());
    PendingUnit unit = EnqueueUnit(stepping, lanes_, *stream_).value();
    std::vector<bool> taken;
    for (size_t i = 0; i < stepping.size(); ++i) {
      EXPECT_OK(unit.parts[i].status);
      if (!unit.parts[i].waits) taken.push_back(shallow[i]);
      EXPECT_EQ(unit.parts[i].is_shallow, !unit.parts[i].waits && shallow[i]);
      EXPECT_OK(CompleteUnit(unit, *stepping[i], unit.parts[i]));
    }
    EXPECT_THAT(taken, AllOf(Not(IsEmpty()), Each(taken.front()))) << "both kinds together";
    return true;
  }

  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
  Lanes lanes_;
  static inline Rig* rig_ = nullptr;
};

TEST_F(FeatureCacheTest, AShallowStepHasNoWeightOfTheSmallestResolution) {
  const auto weights = [](DeepFeatures deep) {
    std::vector<std::string> names;
    const graph::Graph& graph = *GraphOf(deep, 2)->definition().graph;
    for (graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      names.push_back(graph.node(id).name);
    }
    return names;
  };
  const auto full = weights(DeepFeatures::kGiven), shallow = weights(DeepFeatures::kRead);
  for (const char* deep : {"unet/mid_block.", "unet/down_blocks.2.", "unet/up_blocks.0."}) {
    EXPECT_THAT(full, Contains(HasSubstr(deep)));
    EXPECT_THAT(shallow, Not(Contains(HasSubstr(deep))));
  }
  for (const char* all : {"unet/conv_in.", "unet/down_blocks.1.", "unet/up_blocks.1."}) {
    EXPECT_THAT(shallow, Contains(HasSubstr(all)));
  }
}

TEST_F(FeatureCacheTest, BothReadOfARequestWhatOtherStepsRead) {
  const auto packed = [](DeepFeatures deep) {
    std::vector<std::string> ports;
    for (const backends::Port& port : ExecutableOf(deep, 1)->info().inputs) {
      if (absl::StartsWith(port.name, "request.")) {
        ports.push_back(absl::StrCat(port.name, port.shape.ToString()));
      }
    }
    return ports;
  };
  EXPECT_THAT(packed(DeepFeatures::kGiven), Not(IsEmpty()));
  EXPECT_EQ(packed(DeepFeatures::kGiven), packed(DeepFeatures::kNone));
  EXPECT_EQ(packed(DeepFeatures::kRead), packed(DeepFeatures::kNone));
}

// All inputs are noise, but for the schedule.
TEST_F(FeatureCacheTest, AShallowStepOfAFullOnesOwnFeaturesIsThatStep) {
  const auto picture = Begin(Spec(2));
  auto full = backends::BoundGraph::Create(ExecutableOf(DeepFeatures::kGiven, 2)).value();
  auto shallow = backends::BoundGraph::Create(ExecutableOf(DeepFeatures::kRead, 2)).value();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const backends::Port& port : ExecutableOf(DeepFeatures::kGiven, 2)->info().inputs) {
    const device::Buffer memory = full.input(port.name);
    if (port.dtype != device::DType::kF32) continue;
    for (float& value : memory.as<float>()) value = 0.3f * normal(random);
    if (port.name == "table") {
      const size_t row = memory.as<float>().size() / 2;
      for (int i = 0; i < 2; ++i) {
        schedulers::WriteTable(picture->stage().schedule(),
                               memory.as<float>().subspan(i * row, row));
      }
    }
  }
  full.input("text_rows").as<int64_t>()[0] = 1;
  full.input("text_rows").as<int64_t>()[1] = 1;
  for (const backends::Port& port : ExecutableOf(DeepFeatures::kRead, 2)->info().inputs) {
    if (port.name == "deep_features") continue;
    const device::Buffer from = full.input(port.name), to = shallow.input(port.name);
    std::copy_n(static_cast<const char*>(from.data()), from.bytes(), static_cast<char*>(to.data()));
  }
  const auto enqueue = [&](backends::BoundGraph& graph) {
    ASSERT_OK(graph.Enqueue(*stream_));
    ASSERT_OK(stream_->Synchronize());
  };
  const std::vector<float> before = ValuesOf(shallow.input("state"));
  enqueue(full);
  enqueue(shallow);  // its features are zeros
  const std::vector<float> without = ValuesOf(shallow.output("state"));
  absl::c_copy(before, shallow.input("state").as<float>().begin());
  for (int64_t& step : shallow.input("step").as<int64_t>()) step = 0;
  absl::c_copy(full.output("deep_features").as<float>(),
               shallow.input("deep_features").as<float>().begin());
  enqueue(shallow);
  EXPECT_EQ(ValuesOf(shallow.output("state")), ValuesOf(full.output("state")));
  EXPECT_NE(without, ValuesOf(full.output("state")));
}

TEST_F(FeatureCacheTest, EveryIntervalIsAnotherPicture) {
  std::vector<std::vector<float>> pictures;
  for (int interval : {0, 2, 3}) pictures.push_back(rig_->Latents(Spec(interval)));
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_NE(pictures[1], pictures[2]);
  EXPECT_EQ(pictures[0], rig_->Latents(Spec(1)));
}

TEST_F(FeatureCacheTest, TheyHaveLanesOfTheirOwn) {
  const auto cached = Begin(Spec(2)), other = Begin(Spec(5)), plain = Begin(Spec(0));
  EXPECT_EQ(cached->lane(), other->lane());
  EXPECT_NE(cached->lane(), plain->lane());
  const batching::Ahead ahead = cached->ahead();
  ASSERT_EQ(ahead.stages[0].runs.size(), 1u);
  EXPECT_EQ(ahead.stages[0].runs[0].count, 10);
  EXPECT_EQ(ahead.stages[0].runs[0].shallow, 3);  // FFFsFsFsFF
}

// They have several intervals, numbers of rows and ends, with what the noise scheduler remembers,
// its noise and features in rows that come, go, rest and move.
TEST_F(FeatureCacheTest, PicturesSideBySideAreWhatTheyAreAlone) {
  std::vector<PictureSpec> specs = {Spec(2, 11, "dpmpp_2m"), Spec(3, 12, "euler_ancestral"),
                                    Spec(5, 9, "heun"), Spec(2, 10), Spec(4, 13, "ddim")};
  specs[1].guidance_scale = 1;
  specs[2].guidance_stop = GuidanceStop::kAuto;
  specs[2].guidance_scale = 1.1;
  specs[3].guidance_interval = {.start = 0.4, .stop = 0.8};
  for (size_t i = 0; i < specs.size(); ++i) specs[i].seed = 40 + i;
  std::vector<std::vector<float>> alone;
  for (const PictureSpec& spec : specs) alone.push_back(rig_->Latents(spec));
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<Picture>> pictures(specs.size());
    std::vector<size_t> order(specs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Picture*> begun;
    for (bool more = true; more || begun.size() < specs.size();) {
      if (begun.size() < specs.size() && (!more || begun.empty() || random() % 3 == 0)) {
        const size_t next = order[begun.size()];
        pictures[next] = Begin(specs[next]);
        begun.push_back(pictures[next].get());
      }
      std::vector<Picture*> some = begun;
      std::shuffle(some.begin(), some.end(), random);
      more = Step(some);
    }
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(ValuesOf(pictures[i]->latents), alone[i]) << "round " << round << ", " << i;
    }
  }
}

TEST_F(FeatureCacheTest, WithoutAnyShallowEvaluationItIsAWarning) {
  const auto few = rig_->Resolve(Spec(3, 4)).value();
  EXPECT_FALSE(few->caches());
  EXPECT_THAT(few->warnings, Contains(HasSubstr("feature_cache_interval has no effect")));
  for (const PictureSpec& spec : {Spec(3, 6), Spec(1, 4), Spec(0, 4)}) {
    EXPECT_THAT(rig_->Resolve(spec).value()->warnings,
                Not(Contains(HasSubstr("feature_cache_interval"))));
  }
}

TEST_F(FeatureCacheTest, AServerWithoutItsGraphsRefusesIt) {
  const Rig without(Options(/*caches=*/false), "", backends::cpu::CpuBackend::Create().value());
  const auto violations = [&](int interval, const Rig& rig) {
    std::vector<std::string> found;
    for (const auto& one : GetFieldViolations(rig.Resolve(Spec(interval)).status())) {
      found.push_back(absl::StrCat(one.field, ": ", one.description));
    }
    return found;
  };
  EXPECT_THAT(violations(2, without), ElementsAre(AllOf(HasSubstr("feature_cache_interval: "),
                                                        HasSubstr("--feature-cache"))));
  EXPECT_THAT(violations(1, without), IsEmpty());
  EXPECT_THAT(violations(2, *rig_), IsEmpty());
  PictureSpec none = Spec(1);
  for (int interval : {0, 11}) {
    none.feature_cache_interval = interval;
    EXPECT_THAT(rig_->Resolve(none).status().message(), HasSubstr("feature_cache_interval"));
  }
  const Size size{64, 72};
  const auto with_graphs = rig_->pipeline->GraphsOf({}, size, 2).value();
  const auto without_graphs = without.pipeline->GraphsOf({}, size, 2).value();
  EXPECT_EQ(with_graphs.size(), without_graphs.size() + 2);
  EXPECT_GT(rig_->pipeline->StateBytes(size, 2), without.pipeline->StateBytes(size, 2));
}

}  // namespace
}  // namespace latentd::pipeline
