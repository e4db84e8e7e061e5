// Plans: what follows from a request, and that its images hold and do just that.
#include "core/pipeline/plan/plan.h"

#include <set>
#include <string>
#include <vector>

#include "core/image/encode.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kinds = std::vector<UnitKind>;

Kinds KindsOf(const std::vector<PlannedUnit>& units) {
  Kinds kinds;
  for (const PlannedUnit& unit : units) kinds.push_back(unit.kind);
  return kinds;
}

std::set<std::string> LabelsOf(const std::vector<GraphHandle>& graphs) {
  std::set<std::string> labels;
  for (const GraphHandle& graph : graphs) {
    labels.insert(compiler::GraphStore::LabelOf(graph).ToText());
  }
  return labels;
}

Asked OverAnImage(Asked asked) {
  asked.inputs.image = image::Encode({8, 8, std::vector<uint8_t>(8 * 8 * 3, 99)}, {}).value();
  asked.strength = 0.6;
  return asked;
}

// Every kind of request, small.
std::vector<Asked> Requests() {
  Asked plain = SmallSpec(), unguided = plain, interval = plain, latents = plain, both = plain;
  unguided.guidance_scale = 1;
  interval.guidance_interval = GuidanceInterval{0, 0.5};
  latents.output_latents = true;
  both.num_inference_steps = 10;
  both.refine = true;
  Asked refiner = OverAnImage(plain);
  refiner.model = "refiner";
  return {plain, unguided, interval, latents, both, OverAnImage(plain), refiner};
}

class PlanTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<Rig>(); }
  static void TearDownTestSuite() { rig_.reset(); }

  static inline std::unique_ptr<Rig> rig_;
};

TEST_F(PlanTest, ImagesHoldTheGraphsOfTheirPlanAndNoOthers) {
  for (const Asked& asked : Requests()) {
    const auto pictures = rig_->Begin(asked).value();
    const Request& request = *pictures.front()->request;
    const auto planned =
        rig_->pipeline->HandlesOf(request.plan->graphs, ModelGraphs::IfUnknown::kRefuse);
    EXPECT_EQ(LabelsOf(planned.value()), LabelsOf(request.graphs));
  }
}

// As of another device.
TEST_F(PlanTest, APipelineOfTheSameModelsBeginsItWithItsOwnGraphs) {
  const Rig other;
  for (const Asked& asked : Requests()) {
    const SharedPlan plan = rig_->Resolve(asked).value();
    const auto pictures =
        other.pipeline->Start(plan, std::make_shared<Inputs>(asked.inputs)).value();
    const Request& request = *pictures.front()->request;
    const auto own = other.pipeline->HandlesOf(plan->graphs, ModelGraphs::IfUnknown::kRefuse);
    EXPECT_EQ(request.graphs, own.value());
    for (size_t i = 0; i < request.stages.size(); ++i) {
      EXPECT_EQ(&request.stages[i].model,
                other.pipeline->Models()[plan->stages[i].model->row().id.value]);
    }
  }
}

TEST_F(PlanTest, ImagesGoThroughTheUnitsOfTheirPlan) {
  for (const Asked& asked : Requests()) {
    const auto picture = rig_->Start(asked);
    Kinds kinds;
    while (picture->next != UnitKind::kDone) {
      if (picture->evaluation == 0) kinds.push_back(picture->next);
      ASSERT_OK(testing::RunUnit(*picture));
    }
    EXPECT_EQ(kinds, KindsOf(picture->plan().units));
    EXPECT_EQ(picture->steps_done, picture->plan().total_steps());
  }
}

TEST_F(PlanTest, AnEnsembleReadsTheImageWithItsFirstModelAndDecodesWithItsLast) {
  const std::vector<Asked> requests = Requests();
  const SharedPlan both = rig_->Resolve(requests[4]).value();
  ASSERT_EQ(both->stages.size(), 2u);
  EXPECT_EQ(both->stages[1].first_step, both->stages[0].schedule.denoising_steps());
  EXPECT_EQ(both->last_model().row().name, "refiner");
  EXPECT_THAT(KindsOf(both->units), ElementsAre(UnitKind::kText, UnitKind::kStep, UnitKind::kText,
                                                UnitKind::kStep, UnitKind::kDecode));
  for (const PlannedGraph& graph : both->graphs) {
    if (graph.name.kind != GraphKind::kDecode) continue;
    EXPECT_EQ(graph.model, both->stages[1].model->row().id);
  }
}

TEST_F(PlanTest, StepsOfMoreRowsAndPreviewsAreDispensable) {
  const Rig rig({.base = testing::kDemoBase, .row_counts = {1, 2, 4}});
  PictureSpec spec = SmallSpec();
  const SharedPlan shared = rig.pipeline->Resolve(spec).value();
  ASSERT_EQ(shared->dispensable.size(), 1u);
  EXPECT_EQ(shared->dispensable[0].name.shape.rows, 4);
  EXPECT_FALSE(shared->wants_tiny_vae());
  spec.guidance_scale = 1;
  EXPECT_EQ(rig.pipeline->Resolve(spec).value()->dispensable.size(), 2u);
}

TEST_F(PlanTest, NamesTheSchedulerThatIsUsedAndWhatHasNoEffect) {
  PictureSpec spec = SmallSpec();
  EXPECT_THAT(rig_->pipeline->Resolve(spec).value()->warnings, IsEmpty());
  EXPECT_EQ(rig_->pipeline->Resolve(spec).value()->spec.scheduler.name, "euler");
  spec.eta = 0.5;
  EXPECT_THAT(rig_->pipeline->Resolve(spec).value()->warnings,
              ElementsAre("eta has no effect: only the schedulers ddim and tcd read it"));
}

TEST_F(PlanTest, ViolationsOfTheCallerComeWithTheOthers) {
  PictureSpec spec = SmallSpec();
  spec.width = 65;
  const auto refused = rig_->pipeline->Resolve(spec, {},
                                               [](const PictureSpec&) -> absl::StatusOr<Size> {
                                                 return Size{64, 72};
                                               },
                                               {{"priority", "must be less"}});
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(refused.status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ElementsAre("width", "priority"));
}

TEST(CoversTest, AsksForAsManyGraphsThatAreAsLarge) {
  const auto step = [](int rows, int side) {
    return PlannedGraph{{}, {.shape = {rows, side, side}}};
  };
  const std::vector<PlannedGraph> two = {step(2, 8), step(1, 8)}, one = {step(2, 8)};
  EXPECT_TRUE(Covers(two, one, /*grows=*/true));
  EXPECT_FALSE(Covers(one, two, true));
  EXPECT_TRUE(Covers({step(2, 9)}, one, true));
  EXPECT_FALSE(Covers({step(2, 9)}, one, false));
  EXPECT_FALSE(Covers({step(2, 7)}, one, true));
  EXPECT_FALSE(Covers({{{}, {GraphKind::kDecode, {2, 8, 8}}}}, one, true));
}

}  // namespace
}  // namespace latentd::pipeline
