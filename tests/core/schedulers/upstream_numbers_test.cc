// End of one element of the latents by formulas of diffusers that were computed in double,
// apart from goldens.json, which is in float32: 6 steps unless said otherwise, betas scaled_linear
// from 0.00085 to 0.012, the network's output 0.3 x + 0.5 cos(k + 1) at evaluation k, x the latents
// before they are scaled, and noise sin(k + 1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/schedulers/schedule.h"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

struct Case {
  std::string class_name;
  std::string fields;  // beside the betas
  double end;
  int steps = 6;
  double eta = 0;
};

std::string Text(const Case& c) { return absl::StrCat(c.class_name, " ", c.fields, " ", c.steps); }

absl::StatusOr<Schedule> ScheduleOf(const Case& c) {
  const auto config = ParseSchedulerConfig(absl::StrCat(
      R"({"_class_name": ")", c.class_name,
      R"(", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear")",
      c.fields.empty() ? "" : ", ", c.fields, "}"));
  if (!config.ok()) return config.status();
  return MakeSchedule(*config, {.num_inference_steps = c.steps, .eta = c.eta});
}

using Noise = double (*)(const Schedule& schedule, size_t evaluation);

double SineNoise(const Schedule&, size_t evaluation) {
  return std::sin(static_cast<double>(evaluation) + 1);
}

double SigmaAt(const Schedule& schedule, size_t evaluation) {
  const double scale = schedule.steps[evaluation].input_scale;
  return std::sqrt(1 / (scale * scale) - 1);
}

// Increment of a path sin(sigma) from an evaluation's sigma to the next one's, normalised.
double PathNoise(const Schedule& schedule, size_t evaluation) {
  if (evaluation + 1 == schedule.steps.size()) return 0;
  const double from = SigmaAt(schedule, evaluation), to = SigmaAt(schedule, evaluation + 1);
  return (std::sin(to) - std::sin(from)) / std::sqrt(from - to);
}

double EndOf(const Schedule& schedule, Noise noise) {
  std::array<double, kStateRows> state{schedule.initial_noise_scale};
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const double output = 0.3 * state[0] + 0.5 * std::cos(static_cast<double>(k) + 1);
    std::array<double, kStateRows> next{};
    for (int row = 0; row < kStateRows; ++row) {
      const float* line = schedule.steps[k].matrix.data() + row * kCombined;
      for (int i = 0; i < kStateRows; ++i) next[row] += line[i] * state[i];
      next[row] += line[kStateRows] * output + line[kStateRows + 1] * noise(schedule, k);
    }
    state = next;
  }
  return state[0];
}

void ExpectEnds(absl::Span<const Case> cases, Noise noise) {
  for (const Case& c : cases) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleOf(c));
    EXPECT_NEAR(EndOf(schedule, noise), c.end, 3e-5 * (1 + std::abs(c.end))) << Text(c);
  }
}

constexpr char kTrailingV[] =
    R"("timestep_spacing": "trailing", "prediction_type": "v_prediction")";
constexpr char kKarras[] = R"("use_karras_sigmas": true)";
constexpr char kSigmaMin[] = R"("final_sigmas_type": "sigma_min")";
constexpr char kKeepsOrder[] = R"("lower_order_final": false)";
constexpr char kSde[] = R"("algorithm_type": "sde-dpmsolver++")";

std::string With(std::initializer_list<absl::string_view> fields) {
  return absl::StrJoin(fields, ", ");
}

std::string Order(int order) { return absl::StrCat(R"("solver_order": )", order); }

TEST(UpstreamNumbersTest, DpmSolverMultistep) {
  const std::string name = "DPMSolverMultistepScheduler";
  const std::string leading = R"("timestep_spacing": "leading", "steps_offset": 1)";
  ExpectEnds({{name, "", 5.57335297},
              {name, Order(3), 5.2729393},
              {name, With({Order(3), kKarras, kKeepsOrder}), 4.225557},
              {name, With({R"("solver_type": "heun")", kTrailingV}), 0.3989754},
              {name, With({kSde, R"("use_exponential_sigmas": true)"}), 7.38902364},
              {name, With({Order(3), kSde, kKarras, kKeepsOrder}), 10.0077363},
              {name, R"("use_lu_lambdas": true)", 5.96952402},
              {name, R"("use_beta_sigmas": true)", 2.04705573},
              {name, With({leading, kSigmaMin}), 3.21447311},
              {name, With({R"("rescale_betas_zero_snr": true)", kTrailingV}), 0.349090748}},
             SineNoise);
}

TEST(UpstreamNumbersTest, UniPc) {
  const std::string name = "UniPCMultistepScheduler";
  ExpectEnds({{name, "", 5.47134681},
              {name, Order(3), 5.27520571},
              {name, With({Order(3), kKarras}), 3.6268079},
              {name, With({R"("solver_type": "bh1")", kSigmaMin}), 5.5425063},
              {name, With({kTrailingV, R"("disable_corrector": [0, 2])"}), 0.384542177}},
             SineNoise);
}

TEST(UpstreamNumbersTest, DpmSolverSinglestep) {
  const std::string name = "DPMSolverSinglestepScheduler";
  ExpectEnds({{name, "", 5.77993376},
              {name, Order(3), 5.74379631},
              {name, kSde, 5.62300189},
              {name, With({Order(3), R"("solver_type": "heun")", kKarras}), 6.27536106},
              {name, Order(3), 5.57906785, 7}},
             SineNoise);
}

TEST(UpstreamNumbersTest, Deis) {
  const std::string name = "DEISMultistepScheduler";
  ExpectEnds({{name, "", 5.65851122},
              {name, With({Order(3), kKeepsOrder}), 5.66932256},
              {name, kKarras, 6.58160071}},
             SineNoise);
}

TEST(UpstreamNumbersTest, LmsAndKDpm2) {
  ExpectEnds({{"LMSDiscreteScheduler", "", -0.81556654},
              {"LMSDiscreteScheduler", With({kKarras, R"("prediction_type": "v_prediction")"}),
               0.515427095},
              {"KDPM2DiscreteScheduler", "", 16.6015966},
              {"KDPM2DiscreteScheduler", kKarras, 14.7017058},
              {"KDPM2AncestralDiscreteScheduler", "", 47.7325691},
              {"KDPM2AncestralDiscreteScheduler", kKarras, 72.8748886}},
             SineNoise);
}

TEST(UpstreamNumbersTest, PndmAndTcd) {
  const std::string plms = R"("skip_prk_steps": true, "steps_offset": 1)";
  ExpectEnds({{"PNDMScheduler", plms, 3.20804973},
              {"PNDMScheduler", plms + R"(, "prediction_type": "v_prediction")", 0.391522786},
              {"TCDScheduler", "", 7.65676332, 4, 0.3},
              {"TCDScheduler", "", 6.09830465, 4}},
             SineNoise);
}

TEST(UpstreamNumbersTest, DpmSolverSde) {
  ExpectEnds({{"DPMSolverSDEScheduler", "", 2.9419588},
              {"DPMSolverSDEScheduler", With({kKarras, R"("prediction_type": "v_prediction")"}),
               -0.338103416}},
             PathNoise);
}

TEST(UpstreamNumbersTest, Edm) {
  const std::string name = "EDMDPMSolverMultistepScheduler";
  const std::string exponential =
      R"("sigma_schedule": "exponential", "prediction_type": "v_prediction")";
  ExpectEnds({{"EDMEulerScheduler", "", 1.16971857},
              {name, "", -1.1899261},
              {name, Order(3), 5.95182691},
              {name, exponential, 1.30656953}},
             SineNoise);
}

TEST(UpstreamNumbersTest, SaSolver) {
  const std::string orders = R"("predictor_order": 3, "corrector_order": 4)";
  ExpectEnds({{"SASolverScheduler", "", 2.50849379}, {"SASolverScheduler", orders, 2.30101739}},
             SineNoise);
}

}  // namespace
}  // namespace latentd::schedulers
