#include "core/schedulers/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

absl::StatusOr<SchedulerConfig> Config(const Overrides& overrides) {
  return ParseSchedulerConfig(R"({"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
      "beta_schedule": "scaled_linear", "beta_start": 0.00085, "steps_offset": 1,
      "timestep_spacing": "leading"})",
                              overrides);
}

absl::StatusOr<Schedule> Make(const Overrides& overrides, const ScheduleRequest& request) {
  const absl::StatusOr<SchedulerConfig> config = Config(overrides);
  return config.ok() ? MakeSchedule(*config, request) : config.status();
}

std::vector<std::string> FieldsAtFault(const absl::StatusOr<Schedule>& schedule) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(schedule.status())) {
    fields.push_back(violation.field);
  }
  return fields;
}

std::vector<int> StepsOf(const Schedule& schedule) {
  std::vector<int> steps;
  for (const StepCoefficients& step : schedule.steps) steps.push_back(step.denoising_index);
  return steps;
}

// lcm and tcd take at most their original_inference_steps, 50.
int MostSteps(const std::string& name) { return name == "lcm" || name == "tcd" ? 50 : 150; }

// True for those of networks in the style of EDM, which say other things of other timesteps.
bool IsEdm(const std::string& name) { return absl::StartsWith(name, "edm_"); }

bool IsSinglestep(const std::string& name) {
  return name == "dpmpp_2s" || name == "dpmpp_2s_sde" || name == "dpmpp_3s";
}

// True for those whose steps have two evaluations.
bool Halves(const std::string& name) {
  return name == "heun" || name == "dpm2" || name == "dpm2_a" || name == "dpmpp_sde" ||
         name == "dpmpp_2s_a";
}

// As an image is noised where image-to-image begins there; without noise after the last.
TEST(ScheduleTest, KeepsAnImageAtTheNextEvaluationsNoise) {
  for (const char* name : {"euler", "ddim", "dpmpp_2m", "heun", "lcm"}) {
    ASSERT_OK_AND_ASSIGN(const Schedule whole, Make({.name = name}, {.num_inference_steps = 10}));
    ASSERT_OK_AND_ASSIGN(const Schedule half,
                         Make({.name = name}, {.num_inference_steps = 10, .strength = 0.5}));
    const StepCoefficients& before = whole.steps[whole.steps.size() - half.steps.size() - 1];
    EXPECT_THAT(before.kept, ElementsAre(half.start_image_scale, half.start_noise_scale)) << name;
    EXPECT_THAT(whole.steps.back().kept, ElementsAre(1, 0)) << name;
  }
}

// Lines of which diffusers knows no noise, as of the end of their step.
TEST(ScheduleTest, KeepsAnImageAtTheStepsEndInTheMiddleOfOne) {
  for (const char* name : {"dpm2", "dpm2_a", "dpmpp_sde"}) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, Make({.name = name}, {.num_inference_steps = 4}));
    EXPECT_EQ(schedule.steps[0].kept, schedule.steps[1].kept) << name;
    EXPECT_NE(schedule.steps[1].kept, schedule.steps[2].kept) << name;
  }
}

// Differential masks count evaluations from where the picture begins, of all that there would be.
TEST(ScheduleTest, SaysWhichPartOfItIsBehind) {
  const auto passed = [](const std::string& name, const ScheduleRequest& request) {
    const absl::StatusOr<Schedule> schedule = Make({.name = name}, request);
    std::vector<float> all;
    for (const StepCoefficients& step : schedule.value().steps) all.push_back(step.passed);
    return all;
  };
  EXPECT_THAT(passed("euler", {.num_inference_steps = 4}), ElementsAre(0, 0.25f, 0.5f, 0.75f));
  EXPECT_THAT(passed("dpmpp_2m", {.num_inference_steps = 4, .strength = 0.5}),
              ElementsAre(0, 0.25f));
  EXPECT_THAT(passed("euler", {.num_inference_steps = 4, .denoising_start = 0.5}),
              ElementsAre(0.5f, 0.75f));
  EXPECT_THAT(passed("euler", {.sigmas = {10, 5, 1, 0.5, 0.25}}),
              ElementsAre(0, 0.25f, 0.5f, 0.75f));  // the last one is the end
  EXPECT_THAT(passed("heun", {.num_inference_steps = 2}), ElementsAre(0, 0.25f, 0.5f));
  // An evaluation more than steps, and something ahead before its last.
  EXPECT_THAT(passed("pndm", {.num_inference_steps = 4}), ElementsAre(0, 0.2f, 0.4f, 0.6f, 0.8f));
}

// diffusers' inpainting takes any end for the last.
TEST(ScheduleTest, KeepsAnImageWithoutNoiseWhereDenoisingEnds) {
  ASSERT_OK_AND_ASSIGN(const Schedule cut,
                       Make({}, {.num_inference_steps = 10, .denoising_end = 0.5}));
  EXPECT_THAT(cut.steps.back().kept, ElementsAre(1, 0));
}

TEST(ScheduleTest, EverySchedulerRunsAnyNumberOfStepsWithAnySpacing) {
  for (const std::string& name : SupportedSchedulers()) {
    for (const char* spacing : {"leading", "linspace", "trailing"}) {
      for (int steps = 1; steps <= MostSteps(name); ++steps) {
        // Singlestep schedulers and EDM's have a spacing of their own.
        Overrides overrides{.name = name};
        if (!IsSinglestep(name) && !IsEdm(name)) overrides.timestep_spacing = spacing;
        ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                             Make(overrides, {.num_inference_steps = steps}));
        EXPECT_GE(schedule.denoising_steps(), steps) << name << " " << spacing;
      }
    }
  }
}

TEST(ScheduleTest, OnlyAncestralAndStochasticSchedulersDrawNoise) {
  for (const std::string& name : SupportedSchedulers()) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, Make({.name = name}, {.num_inference_steps = 4}));
    const bool stochastic = absl::EndsWith(name, "_a") || absl::StrContains(name, "_sde") ||
                            name == "lcm" || name == "ddpm" || name == "sa_solver";
    const auto draws = [](const StepCoefficients& step) { return step.draws_noise; };
    EXPECT_EQ(std::any_of(schedule.steps.begin(), schedule.steps.end(), draws), stochastic) << name;
  }
}

TEST(ScheduleTest, OnlyDdimAndTcdHeedEta) {
  for (const std::string& name : SupportedSchedulers()) {
    ASSERT_OK_AND_ASSIGN(const Schedule without, Make({.name = name}, {.num_inference_steps = 4}));
    ASSERT_OK_AND_ASSIGN(const Schedule with,
                         Make({.name = name}, {.num_inference_steps = 4, .eta = 0.5}));
    ASSERT_OK_AND_ASSIGN(const SchedulerConfig config, Config({.name = name}));
    EXPECT_EQ(with.steps.front().matrix != without.steps.front().matrix, config.takes_eta())
        << name;
    EXPECT_EQ(config.takes_eta(), name == "ddim" || name == "tcd") << name;
  }
}

// The latents are noised for the first step, and the network tells the noise from the rest.
TEST(ScheduleTest, AStepKnowsWhatItsOutputSaysThatTheLatentsWithoutNoiseAre) {
  constexpr double kOriginal = 0.7, kNoise = -1.3;
  for (const std::string& name : SupportedSchedulers()) {
    if (IsEdm(name)) continue;
    for (const char* type : {"epsilon", "v_prediction"}) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                           Make({.name = name, .prediction_type = type},
                                {.num_inference_steps = 10, .strength = 0.5}));
      const double image = schedule.start_image_scale, noise = schedule.start_noise_scale;
      const double x = image * kOriginal + noise * kNoise;
      const bool epsilon = type == std::string("epsilon");
      const double output =
          epsilon ? kNoise : (image * kNoise - noise * kOriginal) / std::hypot(image, noise);
      const auto& [of_x, of_output] = schedule.steps.front().predicted;
      EXPECT_NEAR(of_x * x + of_output * output, kOriginal, 1e-5) << name << " " << type;
    }
  }
}

// Guidance that stops by itself asks by how much a change of the output changes the prediction.
TEST(ScheduleTest, EachStepsOutputCountsInWhatItPredicts) {
  for (const std::string& name : SupportedSchedulers()) {
    for (const char* type : {"epsilon", "v_prediction", "sample"}) {
      Overrides overrides{.name = name};
      if (!IsEdm(name)) overrides.prediction_type = type;
      const auto schedule = Make(overrides, {.num_inference_steps = 6});
      if (!schedule.ok()) continue;  // not every scheduler takes every type
      for (const StepCoefficients& step : schedule->steps) {
        EXPECT_NE(step.predicted[1], 0) << name << " " << type;
        if (!IsEdm(name) && type == std::string("sample")) {
          EXPECT_NEAR(step.predicted[1], 1, 1e-9) << name;
        }
      }
    }
  }
}

TEST(ScheduleTest, ThePredictionFollowsFromWhatIsThereAroundAStep) {
  for (const std::string& name : SupportedSchedulers()) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                         Make({.name = name}, {.num_inference_steps = 5, .eta = 0.5}));
    const std::array<double, kStateRows> before = {2.5, -0.5, 0.25, 1};
    constexpr double kOutput = 0.4, kNoise = -0.8;
    for (const StepCoefficients& step : schedule.steps) {
      double after = step.matrix[kStateRows] * kOutput + step.matrix[kStateRows + 1] * kNoise;
      for (int i = 0; i < kStateRows; ++i) after += step.matrix[i] * before[i];
      const auto weights = PredictionWeights(step);
      double predicted = weights.front() * after + weights.back() * kNoise;
      for (int i = 0; i < kStateRows; ++i) predicted += weights[1 + i] * before[i];
      const double expected = step.predicted[0] * before[0] + step.predicted[1] * kOutput;
      EXPECT_NEAR(predicted, expected, 1e-3) << name;
    }
  }
}

TEST(ScheduleTest, AHeunStepIsTwoEvaluationsAndOneStepToUsers) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, Make({.name = "heun"}, {.num_inference_steps = 3}));
  EXPECT_THAT(StepsOf(schedule), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(schedule.denoising_steps(), 3);
}

TEST(ScheduleTest, EveryGridRunsAnyNumberOfStepsBehindEveryScheduler) {
  for (const SchedulerNames& names : NamesOfSchedulers()) {
    for (const std::string& grid : names.grids) {
      for (const int steps : {1, 2, 3, 4, 10, 11, 30, 50, 150}) {
        ASSERT_OK_AND_ASSIGN(
            const Schedule schedule,
            Make({.name = absl::StrCat(names.name, "_", grid)}, {.num_inference_steps = steps}));
        EXPECT_GE(schedule.denoising_steps(), steps) << names.name << " " << grid;
        if (grid != "ddim_uniform") {
          EXPECT_GE(schedule.steps.front().timestep, 990) << "the whole of the range";
        }
        const auto goes_up = [](const StepCoefficients& a, const StepCoefficients& b) {
          return a.timestep < b.timestep - 1e-3;  // beyond rounding
        };
        EXPECT_EQ(std::adjacent_find(schedule.steps.begin(), schedule.steps.end(), goes_up),
                  schedule.steps.end())
            << names.name << " " << grid << " " << steps;
      }
    }
  }
}

// The second evaluation's noise has the first one's in it.
TEST(ScheduleTest, BothEvaluationsOfDpmppSdeDrawFromTheImagesOwnPath) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                       Make({.name = "dpmpp_sde_karras"}, {.num_inference_steps = 3}));
  ASSERT_THAT(StepsOf(schedule), ElementsAre(0, 0, 1, 1, 2));
  constexpr int kH2 = 2, kNoiseColumn = kStateRows + 1;
  for (const int step : {0, 2}) {
    const StepCoefficients& first = schedule.steps[step];
    const StepCoefficients& second = schedule.steps[step + 1];
    EXPECT_TRUE(first.draws_noise && second.draws_noise);
    EXPECT_EQ(first.matrix[kH2 * kCombined + kNoiseColumn], 1) << "kept";
    // Independent pieces of the whole step's noise.
    const double kept = second.matrix[kH2], drawn = second.matrix[kNoiseColumn];
    const double sigma = std::sqrt(1 / std::pow(first.input_scale, 2) - 1);
    const double next = std::sqrt(1 / std::pow(schedule.steps[step + 2].input_scale, 2) - 1);
    EXPECT_NEAR(std::hypot(kept, drawn), next * std::sqrt(1 - std::pow(next / sigma, 2)), 1e-4);
  }
  EXPECT_FALSE(schedule.steps.back().draws_noise);
}

TEST(ScheduleTest, SinglestepsGroupsEndWithTheScheduleAndBeginAgainWhereARunBegins) {
  // The column of h1 is read where a group goes on.
  const auto goes_on = [](const Schedule& schedule) {
    std::vector<bool> steps;
    for (const StepCoefficients& step : schedule.steps) steps.push_back(step.matrix[1] != 0);
    return steps;
  };
  ASSERT_OK_AND_ASSIGN(const Schedule six, Make({.name = "dpmpp_2s"}, {.num_inference_steps = 6}));
  EXPECT_THAT(goes_on(six), ElementsAre(false, true, false, true, false, false));
  ASSERT_OK_AND_ASSIGN(const Schedule eight,
                       Make({.name = "dpmpp_3s"}, {.num_inference_steps = 8}));
  EXPECT_THAT(goes_on(eight), ElementsAre(false, true, true, false, true, true, false, false));
  ASSERT_OK_AND_ASSIGN(const Schedule part,
                       Make({.name = "dpmpp_3s"}, {.num_inference_steps = 8, .strength = 0.9}));
  EXPECT_THAT(goes_on(part), ElementsAre(false, true, false, true, true, false, false));
}

// Noise levels of an Euler schedule of SDXL's training.
std::vector<double> SigmasOf(const char* scheduler, int steps, AlignYourStepsTable table) {
  const auto file = SchedulerFile::Parse(
      R"({"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
          "beta_schedule": "scaled_linear", "beta_start": 0.00085})",
      {}, table);
  const auto config = file->With({.name = scheduler});
  const auto schedule = MakeSchedule(*config, {.num_inference_steps = steps});
  std::vector<double> values;
  for (const StepCoefficients& step : schedule->steps) {
    values.push_back(std::sqrt(1 / std::pow(static_cast<double>(step.input_scale), 2) - 1));
  }
  return values;
}

auto NearAll(const std::vector<double>& values) {
  std::vector<::testing::Matcher<double>> matchers;
  for (double value : values) matchers.push_back(::testing::DoubleNear(value, 1e-3));
  return ::testing::ElementsAreArray(matchers);
}

TEST(ScheduleTest, AlignYourStepsIsTheTableOfTheCheckpointsKind) {
  EXPECT_THAT(SigmasOf("Euler AYS", 10, AlignYourStepsTable::kSdxl),
              NearAll({14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113}));
  EXPECT_THAT(SigmasOf("Euler AYS", 10, AlignYourStepsTable::kSd15),
              NearAll({14.615, 6.475, 3.861, 2.697, 1.886, 1.396, 0.963, 0.652, 0.399, 0.152}));
}

// Numbers of ComfyUI's linear_quadratic_schedule (comfy/samplers.py), times the largest sigma.
TEST(ScheduleTest, LinearQuadraticFallsByALineAndThenByASquare) {
  const auto sigmas = [](int steps) {
    return SigmasOf("euler + linear_quadratic", steps, AlignYourStepsTable::kSdxl);
  };
  EXPECT_THAT(sigmas(1), NearAll({14.61464}));
  EXPECT_THAT(sigmas(2), NearAll({14.61464, 14.24928}));
  EXPECT_THAT(sigmas(5), NearAll({14.61464, 14.43196, 14.24928, 12.54424, 7.79448}));
  EXPECT_THAT(sigmas(6), NearAll({14.61464, 14.49285, 14.37107, 14.24928, 12.58483, 7.83507}));
}

TEST(ScheduleTest, TimestepsOfOnesOwnDoNotGoWithAGrid) {
  EXPECT_THAT(FieldsAtFault(Make({.name = "euler_simple"}, {.timesteps = {900, 500, 100}})),
              ElementsAre("timesteps"));
}

TEST(ScheduleTest, PndmBeginsWithAStepOfTwoEvaluations) {
  ASSERT_OK_AND_ASSIGN(const Schedule all, Make({.name = "pndm"}, {.num_inference_steps = 4}));
  EXPECT_THAT(StepsOf(all), ElementsAre(0, 0, 1, 2, 3));
  EXPECT_EQ(all.steps[1].timestep, all.steps[2].timestep);
  ASSERT_OK_AND_ASSIGN(const Schedule one, Make({.name = "pndm"}, {.num_inference_steps = 1}));
  EXPECT_THAT(StepsOf(one), ElementsAre(0));
  ASSERT_OK_AND_ASSIGN(const Schedule half,
                       Make({.name = "pndm"}, {.num_inference_steps = 4, .strength = 0.5}));
  EXPECT_THAT(StepsOf(half), ElementsAre(0, 0, 1)) << "wherever it begins";
}

// Every method is exact where the network always says the same of the noise, and the latents end
// where that leads.
TEST(ScheduleTest, LatentsThatTheNetworkKnowsComeOut) {
  constexpr double kOriginal = 0.7, kNoise = -1.3;
  for (const std::string& name : SupportedSchedulers()) {
    if (IsEdm(name)) continue;
    for (const int steps : {1, 2, 9, 30}) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                           Make({.name = name}, {.num_inference_steps = steps, .strength = 1.0}));
      std::array<double, kStateRows> state{schedule.start_image_scale * kOriginal +
                                           schedule.start_noise_scale * kNoise};
      for (const StepCoefficients& step : schedule.steps) {
        const auto& [of_x, of_output] = step.predicted;
        const double output = (kOriginal - of_x * state[0]) / of_output;
        std::array<double, kStateRows> next{};
        for (int row = 0; row < kStateRows; ++row) {
          const float* line = step.matrix.data() + row * kCombined;
          next[row] = line[kStateRows] * output;
          for (int i = 0; i < kStateRows; ++i) next[row] += line[i] * state[i];
        }
        state = next;
      }
      EXPECT_NEAR(state[0], kOriginal, 0.1) << name << " " << steps;
    }
  }
}

TEST(ScheduleTest, BaseAndRefinerShareTheScheduleBetweenThem) {
  for (const std::string& name : SupportedSchedulers()) {
    if (IsEdm(name)) continue;
    const bool halves = Halves(name);
    ASSERT_OK_AND_ASSIGN(const Schedule all, Make({.name = name}, {.num_inference_steps = 25}));
    ASSERT_OK_AND_ASSIGN(const Schedule base,
                         Make({.name = name}, {.num_inference_steps = 25, .denoising_end = 0.8}));
    ASSERT_OK_AND_ASSIGN(const Schedule refiner,
                         Make({.name = name}, {.num_inference_steps = 25, .denoising_start = 0.8}));
    EXPECT_EQ(base.steps.back().timestep, all.steps[base.steps.size() - 1].timestep);
    EXPECT_LT(refiner.steps.front().timestep, base.steps.back().timestep + 1e-9) << name;
    EXPECT_EQ(refiner.steps.back().timestep, all.steps.back().timestep);
    const size_t both = base.steps.size() + refiner.steps.size();
    EXPECT_EQ(both, all.steps.size() + (halves && both > all.steps.size() ? 1 : 0)) << name;
  }
}

TEST(ScheduleTest, AnEnsembleMayLeaveOneOfTheTwoNothingToDo) {
  ASSERT_OK_AND_ASSIGN(const Schedule base,
                       Make({}, {.num_inference_steps = 1, .denoising_end = 0.8}));
  EXPECT_TRUE(base.steps.empty());
  EXPECT_EQ(base.denoising_steps(), 0);
  ASSERT_OK_AND_ASSIGN(
      const Schedule refiner,
      Make({.timestep_spacing = "trailing"}, {.num_inference_steps = 1, .denoising_start = 0.8}));
  EXPECT_TRUE(refiner.steps.empty());
}

TEST(ScheduleTest, ADenoisingEndOfOneCutsNothing) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                       Make({}, {.num_inference_steps = 5, .denoising_end = 1.0}));
  EXPECT_EQ(schedule.steps.size(), 5u);
}

TEST(ScheduleTest, StrengthRunsTheEndOfTheScheduleAndCountsItFromZero) {
  ASSERT_OK_AND_ASSIGN(const Schedule all, Make({}, {.num_inference_steps = 30}));
  ASSERT_OK_AND_ASSIGN(const Schedule part, Make({}, {.num_inference_steps = 30, .strength = 0.3}));
  ASSERT_EQ(part.steps.size(), 9u);
  EXPECT_EQ(part.steps.front().timestep, all.steps[21].timestep);
  EXPECT_EQ(part.steps.front().denoising_index, 0);
}

TEST(ScheduleTest, AStrengthThatLeavesNoStepIsRefused) {
  for (const std::string& name : SupportedSchedulers()) {
    EXPECT_THAT(FieldsAtFault(Make({.name = name}, {.num_inference_steps = 10, .strength = 0.05})),
                ElementsAre("strength"));
  }
}

TEST(ScheduleTest, StepCountsOutOfRangeAreRefusedWithTheRange) {
  for (int steps : {-1, 0, 1001, std::numeric_limits<int>::max()}) {
    const auto schedule = Make({}, {.num_inference_steps = steps});
    EXPECT_THAT(FieldsAtFault(schedule), ElementsAre("num_inference_steps"));
    EXPECT_THAT(schedule, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 1000")));
  }
  EXPECT_THAT(FieldsAtFault(Make({.name = "lcm"}, {.num_inference_steps = 51})),
              ElementsAre("num_inference_steps"));
}

TEST(ScheduleTest, DdimRefusesStepsBeyondTheLastTrainedTimestep) {
  EXPECT_THAT(FieldsAtFault(Make({.name = "ddim"}, {.num_inference_steps = 1000})),
              ElementsAre("num_inference_steps"));
}

TEST(ScheduleTest, EveryBadFractionIsNamedAtOnce) {
  EXPECT_THAT(FieldsAtFault(Make({}, {.eta = -0.1, .strength = 1.1, .denoising_end = 0.0})),
              UnorderedElementsAre("eta", "strength", "denoising_end"));
  EXPECT_THAT(
      FieldsAtFault(Make({}, {.eta = kNan, .denoising_start = kNan, .denoising_end = kNan})),
      UnorderedElementsAre("eta", "denoising_start", "denoising_end"));
  EXPECT_THAT(FieldsAtFault(Make({}, {.denoising_start = 0.8, .denoising_end = 0.8})),
              ElementsAre("denoising_start"));
  EXPECT_THAT(FieldsAtFault(Make({}, {.strength = 0.5, .denoising_start = 0.5})),
              ElementsAre("strength"));
}

TEST(ScheduleTest, TimestepsOfOnesOwnAreRefusedWhereDiffusersRefusesThem) {
  const ScheduleRequest own{.timesteps = {900, 500, 100}};
  for (const char* name : {"ddim", "euler_a"}) {
    EXPECT_THAT(FieldsAtFault(Make({.name = name}, own)), ElementsAre("timesteps")) << name;
  }
  for (const char* name : {"euler", "dpmpp_2m", "heun"}) {
    EXPECT_THAT(FieldsAtFault(Make({.name = name, .use_karras_sigmas = true}, own)),
                ElementsAre("timesteps"));
  }
}

TEST(ScheduleTest, SigmasOfOnesOwnAreForEulerOnly) {
  for (const std::string& name : SupportedSchedulers()) {
    const auto schedule = Make({.name = name}, {.sigmas = {10, 1, 0}});
    EXPECT_EQ(schedule.ok(), name == "euler") << name;
    EXPECT_EQ(FieldsAtFault(schedule), std::vector<std::string>(schedule.ok() ? 0 : 1, "sigmas"));
  }
}

TEST(ScheduleTest, BadTimestepsAreRefused) {
  const std::vector<double> bad[] = {{100, 500}, {500, 500}, {1000}, {-1}, {kNan}, {500, kNan}};
  for (const std::vector<double>& timesteps : bad) {
    EXPECT_THAT(FieldsAtFault(Make({}, {.timesteps = timesteps})), ElementsAre("timesteps"));
  }
  EXPECT_THAT(FieldsAtFault(Make({}, {.timesteps = std::vector<double>(1'000'000, 1.0)})),
              ElementsAre("timesteps"));
}

TEST(ScheduleTest, BadSigmasAreRefused) {
  const std::vector<double> bad[] = {{1},       {1, 2},        {1, 1},   {1, -1},
                                     {kNan, 0}, {INFINITY, 1}, {1, kNan}};
  for (const std::vector<double>& sigmas : bad) {
    EXPECT_THAT(FieldsAtFault(Make({}, {.sigmas = sigmas})), ElementsAre("sigmas"));
  }
  EXPECT_THAT(FieldsAtFault(Make({}, {.sigmas = std::vector<double>(5000, 1.0)})),
              ElementsAre("sigmas"));
  EXPECT_THAT(FieldsAtFault(Make({}, {.timesteps = {500}, .sigmas = {1, 0}})),
              ElementsAre("sigmas"));
}

TEST(ScheduleTest, EpsilonWithoutSignalAtTheFirstTimestepIsRefusedWithTheWayOut) {
  const Overrides overrides{
      .name = "ddim", .timestep_spacing = "trailing", .rescale_betas_zero_snr = true};
  const auto schedule = Make(overrides, {.num_inference_steps = 5});
  EXPECT_THAT(FieldsAtFault(schedule), ElementsAre("scheduler"));
  EXPECT_THAT(schedule, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("v_prediction")));
}

}  // namespace
}  // namespace latentd::schedulers
