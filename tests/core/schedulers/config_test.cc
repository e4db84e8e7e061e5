#include "core/schedulers/config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// SDXL's own scheduler_config.json, less the fields that other classes read.
constexpr char kSdxl[] = R"({
  "_class_name": "EulerDiscreteScheduler", "_diffusers_version": "0.19.0.dev0",
  "beta_end": 0.012, "beta_schedule": "scaled_linear", "beta_start": 0.00085,
  "interpolation_type": "linear", "num_train_timesteps": 1000, "prediction_type": "epsilon",
  "sample_max_value": 1.0, "skip_prk_steps": true, "steps_offset": 1,
  "timestep_spacing": "leading", "trained_betas": null, "use_karras_sigmas": false})";

std::string File(absl::string_view class_name, absl::string_view fields = "") {
  return absl::StrCat(R"({"_class_name": ")", class_name, "\"", fields.empty() ? "" : ", ", fields,
                      "}");
}

std::vector<std::string> FieldsAtFault(const absl::StatusOr<SchedulerConfig>& config) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(config.status())) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(SchedulerConfigTest, ReadsTheFileOfACheckpoint) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config, ParseSchedulerConfig(kSdxl));
  EXPECT_EQ(config.name(), "euler");
  EXPECT_EQ(config.beta_end, 0.012);
  EXPECT_EQ(config.beta_schedule, BetaSchedule::kScaledLinear);
  EXPECT_EQ(config.steps_offset, 1);
  EXPECT_EQ(config.timestep_spacing, TimestepSpacing::kLeading);
  EXPECT_FALSE(config.trained_betas.has_value());
}

TEST(SchedulerConfigTest, AbsentFieldsHaveTheDefaultsOfTheirClass) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig euler,
                       ParseSchedulerConfig(File("EulerDiscreteScheduler")));
  EXPECT_EQ(euler.beta_end, 0.02);
  EXPECT_EQ(euler.timestep_spacing, TimestepSpacing::kLinspace);
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig heun,
                       ParseSchedulerConfig(File("HeunDiscreteScheduler")));
  EXPECT_EQ(heun.beta_end, 0.012);
  EXPECT_EQ(heun.beta_schedule, BetaSchedule::kLinear);
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig lcm, ParseSchedulerConfig(File("LCMScheduler")));
  EXPECT_EQ(lcm.beta_schedule, BetaSchedule::kScaledLinear);
  EXPECT_EQ(lcm.timestep_spacing, TimestepSpacing::kLeading);
  EXPECT_EQ(lcm.original_inference_steps, 50);
}

TEST(SchedulerConfigTest, NamesTheSupportedSchedulers) {
  EXPECT_THAT(SupportedSchedulers(),
              ElementsAre("euler", "euler_a", "ddim", "dpmpp_2m", "dpmpp_2m_sde", "heun", "lcm",
                          "pndm", "unipc", "dpmpp_3m_sde", "lms", "deis", "dpm2", "dpm2_a", "tcd",
                          "edm_euler", "edm_dpmpp_2m", "edm_dpmpp_2m_sde", "dpmpp_2m_sde_heun",
                          "dpmpp_3m", "dpmpp_2s", "dpmpp_2s_sde", "dpmpp_3s", "dpmpp_sde",
                          "dpmpp_2s_a", "unipc_bh1", "ipndm", "ddpm", "sa_solver"));
}

TEST(SchedulerConfigTest, EverySupportedNameCanBeChosenAndSaysItself) {
  for (const std::string& name : SupportedSchedulers()) {
    ASSERT_OK_AND_ASSIGN(const SchedulerConfig config, ParseSchedulerConfig(kSdxl, {.name = name}));
    EXPECT_EQ(config.name(), name);
    EXPECT_EQ(config.beta_end, 0.012) << "the checkpoint's fields stay";
  }
}

TEST(SchedulerConfigTest, ClassNamesAndAliasesNameTheSame) {
  const std::pair<const char*, const char*> pairs[] = {
      {"EulerDiscreteScheduler", "euler"},
      {"EulerAncestralDiscreteScheduler", "euler_a"},
      {"euler_ancestral", "euler_a"},
      {"DDIMScheduler", "ddim"},
      {"DPMSolverMultistepScheduler", "dpmpp_2m"},
      {"HeunDiscreteScheduler", "heun"},
      {"LCMScheduler", "lcm"},
      {"PNDMScheduler", "pndm"},
      {"plms", "pndm"},
      {"UniPCMultistepScheduler", "unipc"},
      {"LMSDiscreteScheduler", "lms"},
      {"DEISMultistepScheduler", "deis"},
      {"KDPM2DiscreteScheduler", "dpm2"},
      {"KDPM2AncestralDiscreteScheduler", "dpm2_a"},
      {"dpm_2_ancestral", "dpm2_a"},
      {"TCDScheduler", "tcd"},
      {"EDMEulerScheduler", "edm_euler"},
      {"EDMDPMSolverMultistepScheduler", "edm_dpmpp_2m"},
      {"DPMSolverSinglestepScheduler", "dpmpp_2s"},
      {"DPMSolverSDEScheduler", "dpmpp_sde"},
      {"DDPMScheduler", "ddpm"}};
  for (const auto& [given, name] : pairs) {
    ASSERT_OK_AND_ASSIGN(const SchedulerConfig config,
                         ParseSchedulerConfig(kSdxl, {.name = given}));
    EXPECT_EQ(config.name(), name);
  }
}

TEST(SchedulerConfigTest, AClassNameKeepsTheAlgorithmOfTheFileAndAShortNameSetsIt) {
  const std::string sde =
      File("DPMSolverMultistepScheduler", R"("algorithm_type": "sde-dpmsolver++")");
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig own, ParseSchedulerConfig(sde));
  EXPECT_EQ(own.name(), "dpmpp_2m_sde");
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig by_class,
                       ParseSchedulerConfig(sde, {.name = "DPMSolverMultistepScheduler"}));
  EXPECT_EQ(by_class.name(), "dpmpp_2m_sde");
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig by_name,
                       ParseSchedulerConfig(sde, {.name = "dpmpp_2m"}));
  EXPECT_EQ(by_name.name(), "dpmpp_2m");
  ASSERT_OK_AND_ASSIGN(
      const SchedulerConfig typed,
      ParseSchedulerConfig(kSdxl, {.name = "dpmpp_2m", .algorithm_type = "sde-dpmsolver++"}));
  EXPECT_EQ(typed.name(), "dpmpp_2m_sde");
}

TEST(SchedulerConfigTest, OverridesWinOverTheFile) {
  ASSERT_OK_AND_ASSIGN(
      const SchedulerConfig config,
      ParseSchedulerConfig(kSdxl, {.timestep_spacing = "trailing",
                                   .prediction_type = "v_prediction",
                                   .use_karras_sigmas = true,
                                   .rescale_betas_zero_snr = true,
                                   .config = R"({"final_sigmas_type": "sigma_min"})"}));
  EXPECT_EQ(config.timestep_spacing, TimestepSpacing::kTrailing);
  EXPECT_EQ(config.prediction_type, PredictionType::kVPrediction);
  EXPECT_TRUE(config.use_karras_sigmas);
  EXPECT_TRUE(config.rescale_betas_zero_snr);
  EXPECT_EQ(config.final_sigmas_type, FinalSigmas::kSigmaMin);
}

TEST(SchedulerConfigTest, AnUnknownSchedulerIsNamedWithTheSupportedOnes) {
  const auto config = ParseSchedulerConfig(kSdxl, {.name = "magic"});
  EXPECT_THAT(config, StatusIs(kInvalid, AllOf(HasSubstr("magic"), HasSubstr("dpmpp_2m_sde"))));
  EXPECT_THAT(FieldsAtFault(config), ElementsAre("scheduler"));
}

TEST(SchedulerConfigTest, ACheckpointWithAnotherSchedulerNeedsARequestToNameOne) {
  const std::string scm = File("SCMScheduler", R"("clip_sample": false)");
  EXPECT_THAT(ParseSchedulerConfig(scm),
              StatusIs(kInvalid, AllOf(HasSubstr("_class_name"), HasSubstr("SCMScheduler"))));
  EXPECT_THAT(ParseSchedulerConfig(scm, {.name = "ddim"}), IsOk());
}

// Scheduler.from_config(file, algorithm_type=...), where the file's is that of SASolverScheduler.
TEST(SchedulerConfigTest, AShortNameStandsForAnAlgorithmThatIsNotOurs) {
  const std::string file = File("SASolverScheduler", R"("algorithm_type": "data_prediction")");
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config,
                       ParseSchedulerConfig(file, {.name = "dpmpp_2m_sde"}));
  EXPECT_EQ(config.name(), "dpmpp_2m_sde");
  EXPECT_THAT(ParseSchedulerConfig(file, {.name = "DPMSolverMultistepScheduler"}),
              StatusIs(kInvalid, HasSubstr("algorithm_type")));
}

TEST(SchedulerConfigTest, KnowsTheNamesThatRequestsMayUse) {
  for (const char* name : {"euler", "euler_ancestral", "DDIMScheduler"}) {
    EXPECT_OK(CheckSchedulerName(name));
  }
  for (const char* name : {"", "magic", "SCMScheduler"}) {
    EXPECT_THAT(CheckSchedulerName(name), StatusIs(kInvalid, HasSubstr("dpmpp_2m_sde"))) << name;
  }
}

TEST(SchedulerConfigTest, TheClassOfModelIndexCountsMoreThanTheFiles) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig heun,
                       ParseSchedulerConfig(kSdxl, {}, "HeunDiscreteScheduler"));
  EXPECT_EQ(heun.name(), "heun");
  EXPECT_EQ(heun.beta_schedule, BetaSchedule::kScaledLinear);  // the file's
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig named,
                       ParseSchedulerConfig(kSdxl, {.name = "lcm"}, "HeunDiscreteScheduler"));
  EXPECT_EQ(named.name(), "lcm");
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {}, "FooScheduler"),
              StatusIs(kInvalid, HasSubstr("FooScheduler")));
}

// DDIM itself clips by default in diffusers.
TEST(SchedulerConfigTest, ADdimOfModelIndexOverAnotherFileClipsAsInDiffusers) {
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {}, "DDIMScheduler"),
              StatusIs(kInvalid, HasSubstr("clip_sample")));
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.name = "ddim"}), IsOk());
}

TEST(SchedulerConfigTest, AFileNamesAClassAndNoShortName) {
  EXPECT_THAT(ParseSchedulerConfig(File("euler")), StatusIs(kInvalid, HasSubstr("euler")));
}

// No name has the third order with noise in diffusers' class: an answer would name another
// scheduler.
TEST(SchedulerConfigTest, AnAlgorithmBesideANameThatHasItsOwnIsRefused) {
  const auto config =
      ParseSchedulerConfig(kSdxl, {.name = "dpmpp_3m", .algorithm_type = "sde-dpmsolver++"});
  EXPECT_THAT(FieldsAtFault(config), ElementsAre("algorithm_type"));
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.name = "dpmpp_3m"}), IsOk());
  EXPECT_THAT(
      ParseSchedulerConfig(kSdxl, {.name = "dpmpp_2m", .algorithm_type = "sde-dpmsolver++"}),
      IsOk());
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.name = "DPMSolverMultistepScheduler",
                                           .algorithm_type = "sde-dpmsolver++",
                                           .config = R"({"solver_order": 3})"}),
              IsOk());
}

TEST(SchedulerConfigTest, EveryBadOverrideIsNamedAtOnce) {
  const auto config =
      ParseSchedulerConfig(kSdxl, {.timestep_spacing = "wide", .prediction_type = "flow"});
  EXPECT_THAT(FieldsAtFault(config), UnorderedElementsAre("timestep_spacing", "prediction_type"));
  EXPECT_THAT(config, StatusIs(kInvalid, AllOf(HasSubstr("leading, linspace, trailing"),
                                               HasSubstr("epsilon, v_prediction, sample"))));
}

TEST(SchedulerConfigTest, AnOptionThatTheSchedulerHasNotIsRefusedUnlessSwitchedOff) {
  EXPECT_THAT(
      FieldsAtFault(ParseSchedulerConfig(kSdxl, {.name = "ddim", .use_karras_sigmas = true})),
      ElementsAre("use_karras_sigmas"));
  EXPECT_THAT(
      FieldsAtFault(ParseSchedulerConfig(kSdxl, {.name = "heun", .rescale_betas_zero_snr = true})),
      ElementsAre("rescale_betas_zero_snr"));
  EXPECT_THAT(FieldsAtFault(ParseSchedulerConfig(kSdxl, {.algorithm_type = "dpmsolver++"})),
              ElementsAre("algorithm_type"));
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.name = "ddim", .use_karras_sigmas = false}), IsOk());
}

TEST(SchedulerConfigTest, TwoWaysToSpreadSigmasAreTheFaultOfTheRequestThatAddsOne) {
  const auto config = ParseSchedulerConfig(
      kSdxl, {.use_karras_sigmas = true, .config = R"({"use_exponential_sigmas": true})"});
  EXPECT_THAT(FieldsAtFault(config), ElementsAre("use_karras_sigmas"));
}

TEST(SchedulerConfigTest, SampleIsRefusedWhereTheSchedulerHasNoFormulaForIt) {
  EXPECT_THAT(
      FieldsAtFault(ParseSchedulerConfig(kSdxl, {.name = "euler_a", .prediction_type = "sample"})),
      ElementsAre("prediction_type"));
  EXPECT_THAT(
      FieldsAtFault(ParseSchedulerConfig(kSdxl, {.name = "pndm", .prediction_type = "sample"})),
      ElementsAre("prediction_type"));
}

TEST(SchedulerConfigTest, FieldsOfOtherClassesArePassedOver) {
  EXPECT_THAT(ParseSchedulerConfig(File("EulerAncestralDiscreteScheduler",
                                        R"("use_karras_sigmas": true, "clip_sample": true)")),
              IsOk());
}

TEST(SchedulerConfigTest, AFieldThatNoClassHasIsToldOfAFileAndRefusedOfARequest) {
  ASSERT_OK_AND_ASSIGN(
      const SchedulerConfig config,
      ParseSchedulerConfig(File("EulerDiscreteScheduler",
                                R"("use_magic": true, "note": null, "skip_prk_steps": true)")));
  EXPECT_THAT(config.unknown_fields, ElementsAre("note", "use_magic"));
  EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.config = R"({"use_magic": true})"}),
              StatusIs(kInvalid, HasSubstr("use_magic")));
}

TEST(SchedulerConfigTest, ClippingIsRefusedByName) {
  EXPECT_THAT(ParseSchedulerConfig(File("DDIMScheduler", R"("clip_sample": true)")),
              StatusIs(kInvalid, HasSubstr("clip_sample")));
  EXPECT_THAT(ParseSchedulerConfig(File("DDIMScheduler")),
              StatusIs(kInvalid, HasSubstr("clip_sample")));
  EXPECT_THAT(ParseSchedulerConfig(File("LCMScheduler", R"("thresholding": true)")),
              StatusIs(kInvalid, HasSubstr("thresholding")));
  EXPECT_THAT(ParseSchedulerConfig(File("DDIMScheduler", R"("clip_sample": false)")), IsOk());
}

TEST(SchedulerConfigTest, DdimByNameDoesNotClipUnlessTheFileSaysSo) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config, ParseSchedulerConfig(kSdxl, {.name = "ddim"}));
  EXPECT_FALSE(config.clip_sample);
  EXPECT_THAT(ParseSchedulerConfig(File("EulerDiscreteScheduler", R"("clip_sample": true)"),
                                   {.name = "ddim"}),
              StatusIs(kInvalid, HasSubstr("clip_sample")));
}

// Stable Diffusion 1.5's own scheduler_config.json.
TEST(SchedulerConfigTest, PndmIsReadWithoutRungeKuttaSteps) {
  constexpr char kSd15[] = R"({
    "_class_name": "PNDMScheduler", "_diffusers_version": "0.6.0", "beta_end": 0.012,
    "beta_schedule": "scaled_linear", "beta_start": 0.00085, "num_train_timesteps": 1000,
    "set_alpha_to_one": false, "skip_prk_steps": true, "steps_offset": 1, "trained_betas": null,
    "clip_sample": false})";
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config, ParseSchedulerConfig(kSd15));
  EXPECT_EQ(config.name(), "pndm");
  EXPECT_EQ(config.timestep_spacing, TimestepSpacing::kLeading);
  EXPECT_FALSE(config.set_alpha_to_one);
  EXPECT_THAT(config.unknown_fields, IsEmpty());
}

TEST(SchedulerConfigTest, RungeKuttaStepsAreRefusedByName) {
  for (const char* fields : {"", R"("skip_prk_steps": false)"}) {
    EXPECT_THAT(ParseSchedulerConfig(File("PNDMScheduler", fields)),
                StatusIs(kInvalid, AllOf(HasSubstr("skip_prk_steps"), HasSubstr("Runge-Kutta"))));
  }
  EXPECT_THAT(ParseSchedulerConfig(File("PNDMScheduler", R"("skip_prk_steps": true)")), IsOk());
  EXPECT_THAT(
      ParseSchedulerConfig(File("DDIMScheduler", R"("clip_sample": false)"), {.name = "pndm"}),
      IsOk())
      << "a request that names pndm over another file does not mean them";
  EXPECT_THAT(
      ParseSchedulerConfig(File("DDIMScheduler", R"("skip_prk_steps": false)"), {.name = "pndm"}),
      StatusIs(kInvalid, HasSubstr("skip_prk_steps")));
}

TEST(SchedulerConfigTest, PythonsInfinityIsRead) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config,
                       ParseSchedulerConfig(File("DPMSolverMultistepScheduler",
                                                 R"("lambda_min_clipped": -Infinity)")));
  EXPECT_EQ(config.lambda_min_clipped, -std::numeric_limits<double>::infinity());
  EXPECT_THAT(
      ParseSchedulerConfig(File("DPMSolverMultistepScheduler", R"("lambda_min_clipped": NaN)")),
      StatusIs(kInvalid, HasSubstr("lambda_min_clipped")));
}

TEST(SchedulerConfigTest, AStringThatSaysInfinityStaysAString) {
  EXPECT_THAT(ParseSchedulerConfig(File("EulerDiscreteScheduler", R"("beta_schedule": "\"NaN ")")),
              StatusIs(kInvalid, HasSubstr("beta_schedule")));
}

TEST(SchedulerConfigTest, EveryBadValueOfAFileIsNamed) {
  const char* const fields[] = {R"("num_train_timesteps": 0)",
                                R"("num_train_timesteps": 1e9)",
                                R"("num_train_timesteps": 10.5)",
                                R"("beta_start": 0)",
                                R"("beta_end": 1.5)",
                                R"("beta_end": "0.012")",
                                R"("beta_schedule": "exp")",
                                R"("trained_betas": [0.1, -1])",
                                R"("trained_betas": [0.1, 0.2])",
                                R"("trained_betas": "linear")",
                                R"("prediction_type": "flow_prediction")",
                                R"("timestep_spacing": null)",
                                R"("steps_offset": -1)",
                                R"("sigma_min": 0)",
                                R"("use_karras_sigmas": 1)",
                                R"("interpolation_type": 3)",
                                R"("rescale_betas_zero_snr": "yes")",
                                R"("final_sigmas_type": "one")"};
  for (const std::string field : fields) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    const auto config = ParseSchedulerConfig(File("EulerDiscreteScheduler", field));
    EXPECT_THAT(config,
                StatusIs(kInvalid, AllOf(HasSubstr(name), HasSubstr("scheduler_config.json"))))
        << field;
    EXPECT_THAT(FieldsAtFault(config), IsEmpty()) << "the file's fault is no request's";
  }
}

TEST(SchedulerConfigTest, FlowMatchingAndLearnedVariancesAreRefusedByName) {
  for (const char* field : {R"("use_flow_sigmas": true)", R"("use_dynamic_shifting": true)",
                            R"("variance_type": "learned_range")", R"("solver_order": 4)",
                            R"("algorithm_type": "dpmsolver")"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(ParseSchedulerConfig(File("DPMSolverMultistepScheduler", field)),
                StatusIs(kInvalid, HasSubstr(name)));
  }
}

TEST(SchedulerConfigTest, FormsOfUniPcThatAreNotSupportedAreRefusedByName) {
  for (const char* field : {R"("predict_x0": false)", R"("solver_p": {})", R"("solver_order": 4)",
                            R"("disable_corrector": [0.5])", R"("thresholding": true)"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(ParseSchedulerConfig(File("UniPCMultistepScheduler", field)),
                StatusIs(kInvalid, HasSubstr(name)));
  }
  EXPECT_THAT(FieldsAtFault(ParseSchedulerConfig(
                  kSdxl, {.name = "deis", .algorithm_type = "sde-dpmsolver++"})),
              ElementsAre("algorithm_type"));
}

TEST(SchedulerConfigTest, FormsOfSaSolverThatAreNotSupportedAreRefusedByName) {
  for (const char* field : {R"("algorithm_type": "noise_prediction")", R"("predictor_order": 4)",
                            R"("corrector_order": 5)", R"("tau_func": "lambda t: 1")",
                            R"("algorithm_type": "dpmsolver++")"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(ParseSchedulerConfig(File("SASolverScheduler", field)),
                StatusIs(kInvalid, HasSubstr(name)));
  }
  EXPECT_THAT(ParseSchedulerConfig(File("SASolverScheduler", R"("corrector_order": 4)")), IsOk());
  const std::string dpm =
      File("DPMSolverMultistepScheduler", R"("algorithm_type": "sde-dpmsolver++")");
  EXPECT_THAT(ParseSchedulerConfig(dpm, {.name = "sa_solver"}), IsOk())
      << "a short name stands for its algorithm";
}

TEST(SchedulerConfigTest, VariancesOfDdpmAreReadAndThoseThatMakeNoSenseRefused) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig large,
                       ParseSchedulerConfig(kSdxl, {.name = "ddpm", .config = R"({
                                                        "variance_type": "fixed_large"})"}));
  EXPECT_EQ(large.variance_type, VarianceType::kFixedLarge);
  for (const char* type : {"fixed_large_log", "learned", "learned_range"}) {
    EXPECT_THAT(
        ParseSchedulerConfig(
            kSdxl, {.name = "ddpm", .config = absl::StrCat(R"({"variance_type": ")", type, "\"}")}),
        StatusIs(kInvalid, HasSubstr("variance_type")))
        << type;
  }
  EXPECT_THAT(ParseSchedulerConfig(
                  File("DPMSolverMultistepScheduler", R"("variance_type": "fixed_large_log")")),
              IsOk())
      << "of no effect there";
}

TEST(SchedulerConfigTest, ASinglestepClassHasNoSpacing) {
  EXPECT_THAT(FieldsAtFault(ParseSchedulerConfig(
                  kSdxl, {.name = "dpmpp_2s", .timestep_spacing = "trailing"})),
              ElementsAre("timestep_spacing"));
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig config,
                       ParseSchedulerConfig(kSdxl, {.name = "dpmpp_2s"}));
  EXPECT_EQ(config.timestep_spacing, TimestepSpacing::kLinspace) << "whatever the file says";
}

TEST(SchedulerConfigTest, ASchedulerWithoutAClassIsForRequestsOnly) {
  EXPECT_THAT(ParseSchedulerConfig(File("")), StatusIs(kInvalid, HasSubstr("_class_name")));
  for (const char* name : {"dpmpp_3m_sde", "dpmpp_2s_a", "ipndm"}) {
    EXPECT_THAT(ParseSchedulerConfig(kSdxl, {.name = name}), IsOk());
  }
}

TEST(SchedulerConfigTest, WhatIsNoJsonObjectIsRefused) {
  for (const std::string text :
       {"", "{", "[]", "{\"a\": }", "null", "\"", "\"\\", "{\"_class_name\": \"\xff\"}"}) {
    EXPECT_THAT(ParseSchedulerConfig(text), StatusIs(kInvalid, HasSubstr("scheduler_config.json")))
        << text;
  }
}

TEST(SchedulerConfigTest, DeepAndHugeFilesAreRefusedBeforeTheyAreParsed) {
  const std::string deep = "{\"a\": " + std::string(10'000, '[') + std::string(10'000, ']') + "}";
  EXPECT_THAT(ParseSchedulerConfig(deep), StatusIs(kInvalid, HasSubstr("deep")));
  const std::string huge =
      File("EulerDiscreteScheduler", "\"a\": \"" + std::string(2 << 20, 'x') + "\"");
  EXPECT_THAT(ParseSchedulerConfig(huge), StatusIs(kInvalid, HasSubstr("at most 1048576")));
}

TEST(SchedulerConfigTest, AMissingClassNameIsNamed) {
  EXPECT_THAT(ParseSchedulerConfig("{}"), StatusIs(kInvalid, HasSubstr("_class_name")));
}

}  // namespace
}  // namespace latentd::schedulers
