// Presets that adapters bring to the requests that name them.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/pipeline/spec/presets.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/source_directory.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The demo's base with LoRAs that bring presets: the file "NAME" brings NAME.
class AdapterPresetsTest : public ::testing::Test {
 protected:
  AdapterPresetsTest() {
    for (const char* name : {"lightning-1", "lightning-4", "tcd", "dmd2", "none"}) {
      std::filesystem::copy_file(
          ::latentd::testing::SourcePath("tests/golden/loras/diffusers.safetensors"),
          folder_.File(absl::StrCat(name, ".safetensors")));
      testing::WriteFile(folder_.File(absl::StrCat(name, ".json")),
                         absl::StrCat(R"({"preset": ")", name, "\"}"));
    }
    LoadOptions options = {.base = testing::kDemoBase};
    options.adapters = &catalogue_;
    rig_ = std::make_unique<Rig>(options);
  }

  static PictureSpec With(std::vector<Adapter> adapters) {
    PictureSpec spec = SmallSpec();
    spec.num_inference_steps.reset();
    spec.adapters = std::move(adapters);
    return spec;
  }

  SharedPlan PlanOf(const PictureSpec& spec) const {
    const auto plan = rig_->Resolve(spec);
    EXPECT_OK(plan);
    return plan.ok() ? *plan : std::make_shared<const Plan>();
  }

  const ::latentd::testing::TemporaryDirectory folder_;
  adapters::Catalogue catalogue_{adapters::FolderOnDisk(folder_.path())};
  std::unique_ptr<Rig> rig_;
};

TEST_F(AdapterPresetsTest, CountWhereTheRequestSaysNothing) {
  const SharedPlan plan = PlanOf(With({{"lightning-4"}}));
  EXPECT_EQ(plan->spec.num_inference_steps, 4);
  EXPECT_EQ(plan->spec.guidance_scale, 0);
  EXPECT_EQ(plan->spec.scheduler.name, "euler");
  EXPECT_EQ(plan->spec.scheduler.timestep_spacing, "trailing");
  EXPECT_EQ(plan->spec.adapters[0].preset, "lightning-4");
  EXPECT_EQ(plan->total_steps(), 4);
  EXPECT_THAT(plan->warnings, IsEmpty());
  // The same as spelled out, and what the answer says can be sent again.
  PictureSpec spelled = With({{"lightning-4"}});
  spelled.num_inference_steps = 4;
  spelled.guidance_scale = 0;
  spelled.scheduler = {.name = "euler", .timestep_spacing = "trailing"};
  const SharedPlan same = PlanOf(spelled);
  ASSERT_EQ(same->stages[0].schedule.steps.size(), plan->stages[0].schedule.steps.size());
  for (size_t i = 0; i < plan->stages[0].schedule.steps.size(); ++i) {
    EXPECT_EQ(same->stages[0].schedule.steps[i].timestep,
              plan->stages[0].schedule.steps[i].timestep);
  }
  EXPECT_THAT(same->warnings, IsEmpty());
}

TEST_F(AdapterPresetsTest, HaveTimestepsAndEtaForTheirOwnScheduler) {
  const SharedPlan dmd = PlanOf(With({{"dmd2"}}));
  EXPECT_THAT(dmd->spec.timesteps, ElementsAre(999, 749, 499, 249));
  EXPECT_EQ(dmd->spec.scheduler.name, "lcm");
  EXPECT_EQ(PlanOf(With({{"tcd"}}))->spec.eta, 0.3);
  PictureSpec asked = With({{"tcd"}});
  asked.scheduler.name = "ddim";
  EXPECT_EQ(PlanOf(asked)->spec.eta, 0);
}

TEST_F(AdapterPresetsTest, FieldsOfARequestCountMoreAndAreWarnedOf) {
  PictureSpec asked = With({{"lightning-4"}});
  asked.num_inference_steps = 6;
  asked.guidance_scale = 5;
  asked.scheduler = {.name = "heun", .timestep_spacing = "linspace"};
  const SharedPlan plan = PlanOf(asked);
  EXPECT_EQ(plan->spec.num_inference_steps, 6);
  EXPECT_EQ(plan->spec.guidance_scale, 5);
  EXPECT_EQ(plan->spec.scheduler.name, "heun");
  EXPECT_EQ(plan->spec.scheduler.timestep_spacing, "linspace");
  EXPECT_THAT(plan->warnings,
              ElementsAre(AllOf(HasSubstr("num_inference_steps 6"), HasSubstr("an adapter")),
                          HasSubstr("guidance_scale 5"), HasSubstr("timestep_spacing")));
}

TEST_F(AdapterPresetsTest, LeaveOutSettingsThatANamedSchedulerHasNot) {
  PictureSpec asked = With({{"lightning-4"}});
  asked.scheduler.name = "dpmpp_2s";
  const SharedPlan plan = PlanOf(asked);
  EXPECT_EQ(plan->spec.scheduler.timestep_spacing, std::nullopt);
  EXPECT_EQ(plan->spec.num_inference_steps, 4);
}

TEST_F(AdapterPresetsTest, KeepTheSettingsThatANamedSchedulerHas) {
  PictureSpec asked = With({{"lightning-1"}});
  asked.scheduler.name = "euler_karras";
  SharedPlan plan = PlanOf(asked);
  EXPECT_EQ(plan->spec.scheduler.timestep_spacing, "trailing");
  EXPECT_EQ(plan->spec.scheduler.prediction_type, "sample");
  asked.scheduler.name = "euler_a_sgm_uniform";
  plan = PlanOf(asked);
  EXPECT_EQ(plan->spec.scheduler.timestep_spacing, "trailing");
  EXPECT_EQ(plan->spec.scheduler.prediction_type, std::nullopt);
  EXPECT_THAT(plan->warnings, ElementsAre(AllOf(HasSubstr("euler_a_sgm_uniform"),
                                                HasSubstr("sample"), HasSubstr("lightning-1"))));
}

TEST_F(AdapterPresetsTest, TheFirstOfSeveralCounts) {
  const SharedPlan plan = PlanOf(With({{"none"}, {"tcd"}, {"lightning-4", 0.5}}));
  EXPECT_EQ(plan->spec.scheduler.name, "tcd");
  EXPECT_EQ(plan->spec.adapters[0].preset, "");
  EXPECT_EQ(plan->spec.adapters[1].preset, "tcd");
  EXPECT_EQ(plan->spec.adapters[2].preset, "");
  EXPECT_THAT(plan->warnings,
              ElementsAre(AllOf(HasSubstr("adapter lightning-4: its preset lightning-4"),
                                HasSubstr("beside tcd of tcd, which comes first"))));
}

TEST_F(AdapterPresetsTest, AreNotThereAtWeightZeroOrWithNone) {
  const SharedPlan plain = PlanOf(With({}));
  for (const Adapter& adapter : {Adapter{"lightning-4", 0, 1}, Adapter{"none"}}) {
    const SharedPlan plan = PlanOf(With({adapter}));
    EXPECT_EQ(plan->preset, nullptr) << adapter.name;
    EXPECT_EQ(plan->spec.num_inference_steps, plain->spec.num_inference_steps) << adapter.name;
    EXPECT_EQ(plan->spec.scheduler.name, plain->spec.scheduler.name) << adapter.name;
  }
}

TEST_F(AdapterPresetsTest, CountBeforeTheModels) {
  LoadOptions options = {.base = testing::kDemoBase, .preset = "dmd2-1"};
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder_.path()));
  options.adapters = &catalogue;
  const Rig rig(options);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, rig.Resolve(With({{"lightning-4"}})));
  EXPECT_THAT(plan->spec.timesteps, IsEmpty());
  EXPECT_EQ(plan->spec.num_inference_steps, 4);
  EXPECT_EQ(plan->spec.scheduler.name, "euler");
  EXPECT_THAT(plan->warnings, IsEmpty());
}

}  // namespace
}  // namespace latentd::pipeline
