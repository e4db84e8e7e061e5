// Replays what the schedulers of diffusers, and functions of k-diffusion where diffusers has none,
// did (goldens.json, made by make_goldens.py) with the tables of coefficients.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/schedulers/schedule.h"
#include "nlohmann/json.hpp"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

using Json = nlohmann::json;

// Relative to the largest latent of a trajectory: both sides round to float32 at every step.
constexpr double kTolerance = 5e-6;

const Json& Goldens() {
  static const auto& goldens = *new Json(Json::parse(
      std::ifstream(::latentd::testing::SourcePath("tests/core/schedulers/goldens.json")), nullptr,
      /*allow_exceptions=*/false));
  return goldens;
}

ScheduleRequest RequestOf(const Json& json) {
  ScheduleRequest request;
  request.num_inference_steps = json["num_inference_steps"];
  request.timesteps = json.value("timesteps", std::vector<double>{});
  request.sigmas = json.value("sigmas", std::vector<double>{});
  request.eta = json.value("eta", 0.0);
  const auto fraction = [&](const char* name) {
    return json.contains(name) ? std::optional<double>(json[name]) : std::nullopt;
  };
  request.strength = fraction("strength");
  request.denoising_start = fraction("denoising_start");
  request.denoising_end = fraction("denoising_end");
  return request;
}

// The state of one element of the latents.
using State = std::array<double, kStateRows>;

State Next(const StepCoefficients& step, const State& state, double output, double noise) {
  const double combined[kCombined] = {state[0], state[1], state[2], state[3], output, noise};
  State next{};
  for (int row = 0; row < kStateRows; ++row) {
    for (int column = 0; column < kCombined; ++column) {
      next[row] += step.matrix[row * kCombined + column] * combined[column];
    }
  }
  return next;
}

double Largest(const Json& result) {
  double largest = 1;
  const auto see = [&](const Json& values) {
    for (double value : values) largest = std::max(largest, std::abs(value));
  };
  see(result["start"]);
  for (const Json& evaluation : result["evaluations"]) see(evaluation["x"]);
  return largest;
}

void ExpectStart(const Schedule& schedule, const Json& golden, double tolerance) {
  const Json& result = golden["result"];
  const bool from_image = golden["request"].contains("strength");
  for (size_t i = 0; i < result["start"].size(); ++i) {
    const double image = result["image"][i];
    const double noise = result["noise"][i];
    const double start =
        from_image ? schedule.start_image_scale * image + schedule.start_noise_scale * noise
                   : schedule.initial_noise_scale * noise;
    EXPECT_NEAR(start, result["start"][i].get<double>(), tolerance);
  }
}

void ExpectTrajectory(const Schedule& schedule, const Json& result, double tolerance) {
  ASSERT_EQ(schedule.steps.size(), result["evaluations"].size());
  for (size_t element = 0; element < result["start"].size(); ++element) {
    State state = {result["start"][element]};
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const StepCoefficients& step = schedule.steps[i];
      const Json& golden = result["evaluations"][i];
      EXPECT_NEAR(step.timestep, golden["timestep"].get<double>(), 2e-4) << "evaluation " << i;
      EXPECT_EQ(step.denoising_index, golden["step"].get<int>()) << "evaluation " << i;
      EXPECT_EQ(step.draws_noise, !golden["noise"].is_null()) << "evaluation " << i;
      EXPECT_NEAR(step.input_scale * state[0], golden["input"][element].get<double>(), tolerance)
          << "evaluation " << i;
      const double noise = golden["noise"].is_null() ? 0 : golden["noise"][element].get<double>();
      state = Next(step, state, golden["output"][element], noise);
      EXPECT_NEAR(state[0], golden["x"][element].get<double>(), tolerance) << "evaluation " << i;
    }
  }
}

class ScheduleGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ScheduleGoldenTest, FollowsUpstream) {
  ASSERT_TRUE(Goldens().is_object());
  int cases = 0;
  for (const Json& golden : Goldens()["cases"]) {
    if (golden["class"] != GetParam()) continue;
    SCOPED_TRACE(golden["config"].dump() + " " + golden["request"].dump());
    // For k-diffusion, our name for one of its functions, with a grid behind it.
    const std::string name = golden.value("name", std::string(golden["class"]));
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const SchedulerConfig config,
                         ParseSchedulerConfig(Goldens()["file"].dump(),
                                              {.name = name, .config = golden["config"].dump()}));
    ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                         MakeSchedule(config, RequestOf(golden["request"])));
    const double tolerance = kTolerance * Largest(golden["result"]);
    ExpectStart(schedule, golden, tolerance);
    ExpectTrajectory(schedule, golden["result"], tolerance);
    ++cases;
  }
  EXPECT_GE(cases, 6);
}

INSTANTIATE_TEST_SUITE_P(
    AllClasses, ScheduleGoldenTest,
    ::testing::Values("EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler", "DDIMScheduler",
                      "DPMSolverMultistepScheduler", "HeunDiscreteScheduler", "LCMScheduler",
                      "PNDMScheduler", "UniPCMultistepScheduler", "LMSDiscreteScheduler",
                      "DEISMultistepScheduler", "KDPM2DiscreteScheduler",
                      "KDPM2AncestralDiscreteScheduler", "TCDScheduler", "EDMEulerScheduler",
                      "EDMDPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler",
                      "DPMSolverSDEScheduler", "DDPMScheduler", "SASolverScheduler", "k-diffusion"),
    [](const auto& info) {
      const std::string name = info.param;
      return name == "k-diffusion" ? "KDiffusion" : name;
    });

}  // namespace
}  // namespace latentd::schedulers
