// Pictures whose evaluations read the deep features of earlier ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/bound_graph.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/graph/low_rank_paths.h"
#include "core/pipeline/graphs/control_graph.h"
#include "core/pipeline/plan/plan.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using backends::NamedBuffers;
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

// Their rows.
std::vector<int> Evaluations(int count, int rows = 2) { return std::vector<int>(count, rows); }

TEST(PlanShallowTest, TheFirstThreeTenthsAndTheLastTwoAreFull) {
  EXPECT_EQ(PatternOf(2, {Evaluations(20)}), "FFFFFFsFsFsFsFsFsFFF|");
  EXPECT_EQ(PatternOf(3, {Evaluations(20)}), "FFFFFFssFssFssFssFFF|");
  EXPECT_EQ(PatternOf(10, {Evaluations(20)}), "FFFFFFsssssssssFssFF|");
  EXPECT_EQ(PatternOf(1, {Evaluations(20)}), "FFFFFFFFFFFFFFFFFFFF|");
}

TEST(PlanShallowTest, OfFewEvaluationsNoneIsShallow) {
  for (int count : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(PatternOf(5, {Evaluations(count)}), std::string(count, 'F') + "|");
  }
  EXPECT_EQ(PatternOf(5, {Evaluations(5)}), "FFsFF|");
}

// They have no features to read.
TEST(PlanShallowTest, TheFirstOfAStageAndOneWithMoreRowsAreFull) {
  EXPECT_EQ(PatternOf(4, {Evaluations(7), Evaluations(7)}), "FFFFFss|FsssFFF|");
  EXPECT_EQ(PatternOf(4, {{2, 2, 2, 2, 1, 1, 2, 2, 2, 2, 2, 2}}), "FFFFssFsssFF|");
}

// Ports of other dtypes are left as they are.
void FillWithNoise(const device::Buffer& memory, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.3f);
  if (memory.dtype() == device::DType::kF32) {
    for (float& value : memory.as<float>()) value = normal(random);
  }
  if (memory.dtype() == device::DType::kBF16) {  // the first half of a float
    for (uint16_t& value : memory.as<uint16_t>()) {
      value = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
    }
  }
}

void CopyBytes(const device::Buffer& from, const device::Buffer& to) {
  ASSERT_EQ(from.bytes(), to.bytes());
  std::memcpy(to.data(), from.data(), from.bytes());
}

// Memory of the host for each of the executable's ports.
NamedBuffers MemoryFor(const backends::Executable& executable) {
  NamedBuffers ports;
  for (const auto* all : {&executable.inputs(), &executable.outputs()}) {
    for (const backends::Port& port : *all) {
      if (!ports.contains(port.name)) {
        ports[port.name] = device::Buffer::Allocate(port.dtype, port.shape);
      }
    }
  }
  return ports;
}

void RunOnHost(const ExecutablePointer& executable, const NamedBuffers& ports) {
  auto bound = backends::BoundGraph::Create(executable, ports).value();
  const auto stream = device::Host().NewStream(SystemClock()).value();
  ASSERT_OK(bound.Enqueue(*stream));
  ASSERT_OK(stream->Synchronize());
}

// Noise for all inputs of a step of two rows, but for the schedule, the rows of the picture, and
// their slots of low-rank paths.
NamedBuffers NoiseFor(const backends::Executable& step, const schedulers::Schedule& schedule) {
  NamedBuffers ports = MemoryFor(step);
  std::mt19937 random(1);
  for (const backends::Port& port : step.inputs()) FillWithNoise(ports.at(port.name), random);
  for (int row = 0; row < 2; ++row) {
    schedulers::WriteTable(schedule, ports.at("table").Rows(row, row + 1).as<float>());
    ports.at("negative_rows").as<int64_t>()[row] = 0;
    ports.at("text_rows").as<int64_t>()[row] = 1;
    ports.at("step").as<int64_t>()[row] = 3;
    const auto slots = ports.find(graph::kPathSlotInput);
    if (slots != ports.end()) slots->second.as<int64_t>()[row] = row;
  }
  return ports;
}

// Latents after a shallow step that reads the features of a full one with the same inputs are those
// after the full one; and others where the features are zeros.
void ExpectThatStep(const ExecutablePointer& full_step, const ExecutablePointer& shallow_step,
                    const schedulers::Schedule& schedule) {
  const NamedBuffers full = NoiseFor(*full_step, schedule), shallow = MemoryFor(*shallow_step);
  const device::Buffer& read = shallow.at("deep_features");
  const auto begin = [&] {
    for (const auto& [name, memory] : shallow) CopyBytes(full.at(name), memory);
  };
  begin();
  std::memset(read.data(), 0, read.bytes());
  RunOnHost(shallow_step, shallow);
  const std::vector<float> without = ValuesOf(shallow.at("state"));
  begin();
  RunOnHost(full_step, full);
  CopyBytes(full.at("deep_features"), read);
  RunOnHost(shallow_step, shallow);
  EXPECT_EQ(ValuesOf(shallow.at("state")), ValuesOf(full.at("state")));
  EXPECT_NE(without, ValuesOf(full.at("state")));
}

int64_t ResidualsOf(const backends::Executable& step) {
  return absl::c_count_if(step.inputs(),
                          [](const backends::Port& port) { return IsResidual(port.name); });
}

// The demo's base, in lanes of up to four rows, whose first row counts are ready; its UNet in the
// dtype.
class FeatureCacheTest : public ::testing::TestWithParam<device::DType> {
 protected:
  static LoadOptions Options(bool caches) {
    return {.base = testing::kDemoBase,
            .precision = {{"unet_base", GetParam()}},
            .row_counts = {1, 2, 4},
            .feature_cache = caches};
  }
  FeatureCacheTest() {
    std::unique_ptr<Rig>& rig = rigs_[GetParam()];
    if (rig == nullptr) rig = NewRig();
    rig_ = rig.get();
  }
  static std::unique_ptr<Rig> NewRig() {
    auto rig = std::make_unique<Rig>(Options(/*caches=*/true), "",
                                     backends::cpu::CpuBackend::Create().value());
    for (const DeepFeatures deep : {DeepFeatures::kGiven, DeepFeatures::kRead}) {
      for (int rows : {1, 2, 4}) {
        rig->kept.push_back(GraphOf(*rig, deep, rows));
        EXPECT_OK(rig->pipeline->first().graphs().Get(rig->kept.back()));
      }
    }
    return rig;
  }
  static void TearDownTestSuite() { rigs_.clear(); }

  static GraphHandle GraphOf(const Rig& rig, DeepFeatures deep, int rows) {
    const StepShape shape{.rows = rows, .height = 72 / 8, .width = 64 / 8, .deep = deep};
    return rig.pipeline->first().graphs().Find({.shape = shape}).value();
  }
  GraphHandle GraphOf(DeepFeatures deep, int rows) const { return GraphOf(*rig_, deep, rows); }
  ExecutablePointer ExecutableOf(DeepFeatures deep, int rows) const {
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
  const Rig* rig_;

 private:
  static inline std::map<device::DType, std::unique_ptr<Rig>> rigs_;  // they are slow to make
};

INSTANTIATE_TEST_SUITE_P(DTypes, FeatureCacheTest,
                         ::testing::Values(device::DType::kF32, device::DType::kBF16),
                         [](const auto& info) { return std::string(device::Name(info.param)); });

TEST_P(FeatureCacheTest, AShallowStepHasNoWeightOfTheSmallestResolution) {
  const auto weights = [&](DeepFeatures deep) {
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

TEST_P(FeatureCacheTest, BothReadOfARequestWhatOtherStepsRead) {
  const auto packed = [&](DeepFeatures deep) {
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

TEST_P(FeatureCacheTest, AShallowStepOfAFullOnesOwnFeaturesIsThatStep) {
  const auto picture = rig_->BeginSteps(Spec(2));
  const ExecutablePointer full = ExecutableOf(DeepFeatures::kGiven, 2);
  EXPECT_EQ(MemoryFor(*full).at("deep_features").dtype(), GetParam());
  ExpectThatStep(full, ExecutableOf(DeepFeatures::kRead, 2), picture->stage().schedule());
}

TEST_P(FeatureCacheTest, SoItIsWithResidualsAndLowRankPaths) {
  constexpr int kRanks = 8;
  const testing::TemporaryDirectory folder;
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  LoadOptions options = Options(/*caches=*/true);
  options.adapters = &catalogue;
  options.path_slots = 2;
  options.path_ranks = kRanks;
  const Rig rig(options, "", backends::cpu::CpuBackend::Create().value());
  ModelGraphs& graphs = rig.pipeline->first().graphs();
  const auto step = [&](DeepFeatures deep) {
    const StepShape shape{
        .rows = 2, .height = 72 / 8, .width = 64 / 8, .ranks = kRanks, .deep = deep};
    const GraphHandle graph = graphs.Find({.shape = shape, .controlled = true}).value();
    return graphs.Get(graph).value();
  };
  const ExecutablePointer full = step(DeepFeatures::kGiven), shallow = step(DeepFeatures::kRead);
  EXPECT_TRUE(MemoryFor(*shallow).contains(graph::kPathSlotInput));
  EXPECT_GT(ResidualsOf(*shallow), 0);
  EXPECT_LT(ResidualsOf(*shallow), ResidualsOf(*full));
  ExpectThatStep(full, shallow, rig_->BeginSteps(Spec(2))->stage().schedule());
}

TEST_P(FeatureCacheTest, EveryIntervalIsAnotherPicture) {
  std::vector<std::vector<float>> pictures;
  for (int interval : {0, 2, 3}) pictures.push_back(rig_->Latents(Spec(interval)));
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_NE(pictures[1], pictures[2]);
  EXPECT_EQ(pictures[0], rig_->Latents(Spec(1)));
}

TEST_P(FeatureCacheTest, AnEffortIsThePictureOfItsFields) {
  PictureSpec fast = Spec(0);
  fast.guidance_scale = 1.1;  // stops
  fast.effort = Effort::kFast;
  PictureSpec fields = fast;
  fields.effort.reset();
  const std::vector<float> full = rig_->Latents(fields);
  fields.guidance_stop = GuidanceStop::kAuto;
  const std::vector<float> high = rig_->Latents(fields);
  fields.feature_cache_interval = 3;
  const std::vector<float> by_fields = rig_->Latents(fields);
  EXPECT_NE(by_fields, high);
  EXPECT_NE(high, full);
  EXPECT_EQ(rig_->Latents(fast), by_fields);
  fast.effort = Effort::kHigh;
  EXPECT_EQ(rig_->Latents(fast), high);
  fast.effort = Effort::kFull;
  EXPECT_EQ(rig_->Latents(fast), full);
}

TEST_P(FeatureCacheTest, TheyHaveLanesOfTheirOwn) {
  const auto cached = rig_->BeginSteps(Spec(2)), other = rig_->BeginSteps(Spec(5));
  const auto plain = rig_->BeginSteps(Spec(0));
  EXPECT_EQ(cached->lane(), other->lane());
  EXPECT_NE(cached->lane(), plain->lane());
  const batching::Ahead ahead = cached->ahead();
  ASSERT_EQ(ahead.stages[0].runs.size(), 1u);
  EXPECT_EQ(ahead.stages[0].runs[0].count, 10);
  EXPECT_EQ(ahead.stages[0].runs[0].shallow, 3);  // FFFsFsFsFF
}

// They have several intervals, numbers of rows and ends, with what the noise scheduler remembers,
// its noise and features in rows that come, go, rest and move.
TEST_P(FeatureCacheTest, PicturesSideBySideAreWhatTheyAreAlone) {
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
        pictures[next] = rig_->BeginSteps(specs[next]);
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

TEST_P(FeatureCacheTest, WithoutAnyShallowEvaluationItIsAWarning) {
  const auto few = rig_->Resolve(Spec(3, 4)).value();
  EXPECT_FALSE(few->caches());
  EXPECT_THAT(few->warnings, Contains(HasSubstr("feature_cache_interval has no effect")));
  for (const PictureSpec& spec : {Spec(3, 6), Spec(1, 4), Spec(0, 4)}) {
    EXPECT_THAT(rig_->Resolve(spec).value()->warnings,
                Not(Contains(HasSubstr("feature_cache_interval"))));
  }
}

TEST_P(FeatureCacheTest, AServerWithoutItsGraphsRefusesIt) {
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
  PictureSpec fast = Spec(0);
  fast.effort = Effort::kFast;
  const auto drawn = without.Resolve(fast).value();
  EXPECT_THAT(drawn->warnings,
              ElementsAre(AllOf(HasSubstr("effort fast"), HasSubstr("--feature-cache"))));
  EXPECT_EQ(drawn->spec.feature_cache_interval, 1);
  EXPECT_EQ(drawn->spec.guidance_stop, GuidanceStop::kAuto);
  EXPECT_THAT(without.Resolve(drawn->spec).value()->warnings, IsEmpty());  // as it is sent again
  EXPECT_THAT(rig_->Resolve(fast).value()->warnings, IsEmpty());
  EXPECT_THAT(violations(2, *rig_), IsEmpty());
  PictureSpec none = Spec(1);
  for (int interval : {0, 11}) {
    none.feature_cache_interval = interval;
    EXPECT_THAT(rig_->Resolve(none).status().message(), HasSubstr("feature_cache_interval"));
  }
  const Size size{64, 72};
  const auto with_graphs = rig_->pipeline->GraphsOf({}, size, 2).value();
  const auto without_graphs = without.pipeline->GraphsOf({}, size, 2).value();
  ASSERT_EQ(with_graphs.size(), without_graphs.size() + 2);
  for (size_t i = 0; i < without_graphs.size(); ++i) {  // made ready first
    EXPECT_EQ(compiler::GraphStore::LabelOf(with_graphs[i]).ToText(),
              compiler::GraphStore::LabelOf(without_graphs[i]).ToText());
  }
  EXPECT_GT(rig_->pipeline->StateBytes(size, 2), without.pipeline->StateBytes(size, 2));
}

}  // namespace
}  // namespace latentd::pipeline
