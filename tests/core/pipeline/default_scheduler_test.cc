// The noise scheduler of a request that names none: the checkpoint's, the operator's, or an
// error that says what it may name.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::kDemoBase;
using ::latentd::testing::kDemoRefiner;
using ::latentd::testing::MakeEditedCheckpoint;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class DefaultSchedulerTest : public ::testing::Test {
 protected:
  // A checkpoint like the demo's whose model_index.json names another class of scheduler.
  std::string WithClass(const std::string& original, const std::string& name) const {
    const std::string path = directory_.File(name);
    MakeEditedCheckpoint(path, original, "model_index.json", "scheduler",
                         absl::StrCat(R"(["diffusers", ")", name, R"("])"));
    return path;
  }

  // Keeps what the start says.
  LoadOptions Told(LoadOptions options) {
    options.warn = [this](absl::string_view warning) { warnings_.emplace_back(warning); };
    return options;
  }

  testing::TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

PictureSpec Named(const std::string& scheduler) {
  PictureSpec spec = SmallSpec();
  spec.scheduler.name = scheduler;
  return spec;
}

// The violations' fields and texts.
std::string Violations(const absl::Status& status) {
  std::string text;
  for (const FieldViolation& violation : GetFieldViolations(status)) {
    absl::StrAppend(&text, violation.field, " ", violation.description, "\n");
  }
  return text;
}

TEST_F(DefaultSchedulerTest, AClassThatIsNotOursStartsAndRequestsHaveToNameOne) {
  const Rig demo({.base = kDemoBase});
  for (const char* name :
       {"CMStochasticIterativeScheduler", "RePaintScheduler", "OfAReleaseToComeScheduler"}) {
    warnings_.clear();
    const Rig rig(Told({.base = WithClass(kDemoBase, name)}));
    EXPECT_EQ(rig.pipeline->table().first().default_scheduler, "");
    EXPECT_THAT(warnings_,
                ElementsAre(AllOf(HasSubstr(name), HasSubstr("scheduler_config.json"),
                                  HasSubstr("euler, euler_a, ddim"), HasSubstr("--scheduler=NAME"),
                                  Not(HasSubstr("nothing sensible")))));
    const absl::Status refused = rig.pipeline->Resolve(SmallSpec()).status();
    EXPECT_THAT(refused, StatusIs(kInvalid, HasSubstr("scheduler")));
    EXPECT_THAT(Violations(refused),
                AllOf(HasSubstr("scheduler must be one of euler, euler_a, ddim"), HasSubstr(name)));
    // from_config: the file's fields stay.
    EXPECT_EQ(rig.Latents(Named("euler")), demo.Latents(Named("euler"))) << name;
  }
}

TEST_F(DefaultSchedulerTest, WhatANetworkOfOtherTrainingDrawsIsSaid) {
  for (const char* name : {"FlowMatchHeunDiscreteScheduler", "FlowMatchEulerDiscreteScheduler"}) {
    warnings_.clear();
    EXPECT_NE(Rig(Told({.base = WithClass(kDemoBase, name)})).pipeline, nullptr);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("draws nothing sensible"))) << name;
  }
}

TEST_F(DefaultSchedulerTest, AFileThatFitsOtherSchedulersOnlyIsTheSame) {
  MakeEditedCheckpoint(directory_.File("clips"), WithClass(kDemoBase, "DDIMScheduler"),
                       "scheduler/scheduler_config.json", "clip_sample", "true");
  const Rig rig(Told({.base = directory_.File("clips")}));
  EXPECT_EQ(rig.pipeline->table().first().default_scheduler, "");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("clip_sample")));
  EXPECT_THAT(Violations(rig.pipeline->Resolve(SmallSpec()).status()), HasSubstr("clip_sample"));
  EXPECT_THAT(rig.pipeline->Resolve(Named("euler")), IsOk());
}

TEST_F(DefaultSchedulerTest, AFileThatFitsNoneEndsTheStart) {
  MakeEditedCheckpoint(
      directory_.File("flow"), WithClass(kDemoBase, "CMStochasticIterativeScheduler"),
      "scheduler/scheduler_config.json", "prediction_type", R"("flow_prediction")");
  Rig rig({.base = kDemoBase});
  EXPECT_THAT(LoadPipeline({.base = directory_.File("flow")}, rig.weights, rig.graphs),
              StatusIs(kInvalid, AllOf(HasSubstr(directory_.File("flow/scheduler")),
                                       HasSubstr("prediction_type"))));
}

TEST_F(DefaultSchedulerTest, TheOperatorsStandsForTheCheckpoints) {
  const std::string base = WithClass(kDemoBase, "CMStochasticIterativeScheduler");
  const Rig demo({.base = kDemoBase});
  for (const char* name : {"dpmpp_2m", "HeunDiscreteScheduler"}) {
    warnings_.clear();
    const Rig rig(Told({.base = base, .scheduler = name}));
    EXPECT_THAT(warnings_, IsEmpty());
    EXPECT_EQ(rig.pipeline->table().first().default_scheduler,
              demo.pipeline->Resolve(Named(name)).value()->spec.scheduler.name);
    EXPECT_EQ(rig.Latents(SmallSpec()), demo.Latents(Named(name)));
    EXPECT_EQ(rig.Latents(Named("euler")), demo.Latents(SmallSpec())) << "a request's own counts";
  }
  const Rig over_ours({.base = kDemoBase, .scheduler = "heun"});
  EXPECT_EQ(over_ours.Latents(SmallSpec()), demo.Latents(Named("heun")));
}

TEST_F(DefaultSchedulerTest, TheOperatorsHasToFitTheFile) {
  MakeEditedCheckpoint(directory_.File("clips"), kDemoBase, "scheduler/scheduler_config.json",
                       "clip_sample", "true");
  Rig rig({.base = kDemoBase});
  EXPECT_THAT(LoadPipeline({.base = directory_.File("clips"), .scheduler = "ddim"}, rig.weights,
                           rig.graphs),
              StatusIs(kInvalid, HasSubstr("clip_sample")));
}

TEST_F(DefaultSchedulerTest, TheRefinersIsItsOwn) {
  const std::string refiner = WithClass(kDemoRefiner, "RePaintScheduler");
  const Rig rig(Told({.base = kDemoBase, .refiner = refiner}));
  EXPECT_EQ(rig.pipeline->table().first().default_scheduler, "euler");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(refiner)));
  EXPECT_THAT(rig.pipeline->Resolve(SmallSpec()), IsOk());
  PictureSpec refined = SmallSpec();
  refined.refine = true;
  EXPECT_THAT(Violations(rig.pipeline->Resolve(refined).status()),
              AllOf(HasSubstr("scheduler must be one of"), HasSubstr("the refiner's checkpoint"),
                    HasSubstr("RePaintScheduler")));
  refined.scheduler.name = "euler";
  EXPECT_THAT(rig.pipeline->Resolve(refined), IsOk());
  const Rig told({.base = kDemoBase, .refiner = refiner, .scheduler = "ddim"});
  refined.scheduler.name.clear();
  EXPECT_EQ(told.pipeline->Resolve(refined).value()->spec.scheduler.name, "ddim");
}

// With another mistake the missing scheduler is named too, of the model that would draw.
TEST_F(DefaultSchedulerTest, EveryMistakeIsNamedAtOnce) {
  PictureSpec wrong = SmallSpec();
  wrong.width = 65;
  const Rig base({.base = WithClass(kDemoBase, "RePaintScheduler"), .refiner = kDemoRefiner});
  EXPECT_THAT(Violations(base.pipeline->Resolve(wrong).status()),
              AllOf(HasSubstr("width must be"), HasSubstr("scheduler must be one of")));
  wrong.model = "refiner";
  EXPECT_THAT(Violations(base.pipeline->Resolve(wrong).status()), Not(HasSubstr("scheduler")));
}

}  // namespace
}  // namespace latentd::pipeline
