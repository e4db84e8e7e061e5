#include "core/schedulers/scheduler_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace latentd::schedulers {
namespace {

constexpr AlgorithmType kOde = AlgorithmType::kDpmSolverPlusPlus;
constexpr AlgorithmType kSde = AlgorithmType::kSdeDpmSolverPlusPlus;

constexpr SchedulerRow kTable[] = {
    {&kEuler, "euler", "", "Euler", ""},
    {&kEulerAncestral, "euler_a", "euler_ancestral", "Euler a", ""},
    {&kDdim, "ddim", "", "DDIM", ""},
    {&kDpmpp2m, "dpmpp_2m", "", "DPM++ 2M", "karras", kOde},
    {&kDpmpp2m, "dpmpp_2m_sde", "dpmpp_2m_sde_gpu", "DPM++ 2M SDE", "exponential", kSde},
    {&kHeun, "heun", "", "Heun", ""},
    {&kLcm, "lcm", "", "LCM", ""},
    {&kPndm, "pndm", "plms", "PLMS", ""},
    {&kUniPc, "unipc", "uni_pc_bh2", "UniPC", "", std::nullopt, SolverType::kMidpoint},
    {&kDpmpp3mSde, "dpmpp_3m_sde", "dpmpp_3m_sde_gpu", "DPM++ 3M SDE", "exponential"},
    {&kLms, "lms", "", "LMS", ""},
    {&kDeis, "deis", "", "DEIS", ""},
    {&kDpm2, "dpm2", "dpm_2", "DPM2", "karras"},
    {&kDpm2Ancestral, "dpm2_a", "dpm_2_ancestral dpm_2_a", "DPM2 a", "karras"},
    {&kTcd, "tcd", "", "TCD", ""},
    {&kEdmEuler, "edm_euler", "", "", ""},
    {&kEdmDpmpp2m, "edm_dpmpp_2m", "", "", "", kOde},
    {&kEdmDpmpp2m, "edm_dpmpp_2m_sde", "", "", "", kSde},
    {&kDpmpp2m, "dpmpp_2m_sde_heun", "dpmpp_2m_sde_heun_gpu", "DPM++ 2M SDE Heun", "exponential",
     kSde, SolverType::kHeun},
    {&kDpmpp2m, "dpmpp_3m", "", "", "", kOde, std::nullopt, 3},
    {&kDpmpp2s, "dpmpp_2s", "", "", "", kOde},
    {&kDpmpp2s, "dpmpp_2s_sde", "", "", "", kSde},
    {&kDpmpp2s, "dpmpp_3s", "", "", "", kOde, std::nullopt, 3},
    {&kDpmppSde, "dpmpp_sde", "dpmpp_sde_gpu", "DPM++ SDE", "karras"},
    {&kDpmpp2sAncestral, "dpmpp_2s_a", "dpmpp_2s_ancestral", "DPM++ 2S a", "karras"},
    {&kUniPc, "unipc_bh1", "uni_pc", "", "", std::nullopt, SolverType::kBh1},
    {&kIpndm, "ipndm", "", "IPNDM", ""},
    {&kDdpm, "ddpm", "", "DDPM", ""},
    {&kSaSolver, "sa_solver", "", "SA Solver", "", AlgorithmType::kDataPrediction},
};

constexpr GridRow kGrids[] = {
    {NamedGrid::kKarras, "karras", "ka", "Karras"},
    {NamedGrid::kExponential, "exponential", "exp polyexponential", "Exponential"},
    {NamedGrid::kBeta, "beta", "", "Beta"},
    {NamedGrid::kNormal, "normal", "uniform", "Normal"},
    {NamedGrid::kSimple, "simple", "", "Simple"},
    {NamedGrid::kSgmUniform, "sgm_uniform", "", "SGM Uniform"},
    {NamedGrid::kDdimUniform, "ddim_uniform", "ddim", "DDIM"},
    {NamedGrid::kKlOptimal, "kl_optimal", "", "KL Optimal"},
    {NamedGrid::kTurbo, "turbo", "", "Turbo"},
    {NamedGrid::kAlignYourSteps, "align_your_steps", "ays", "Align Your Steps"},
    {NamedGrid::kLinearQuadratic, "linear_quadratic", "", "Linear Quadratic"},
};

constexpr absl::string_view kNotLinear = "its steps depend on the latents, and are no fixed table";
constexpr absl::string_view kFlow = "it is for networks of flow matching";
constexpr absl::string_view kNotYet = "latentd does not have it";
constexpr absl::string_view kOtherUse = "it does not draw with networks of this kind";

constexpr RefusedRow kRefused[] = {
    {"dpm_adaptive dpm_ad", kNotLinear},
    {"dpm_fast restart heunpp2 ipndm_v res_multistep res_multistep_ancestral er_sde seeds_2 "
     "seeds_3 gradient_estimation exp_heun_2_x0 exp_heun_2_x0_sde sa_solver_pece",
     kNotYet},
    {"ddim_cfgpp euler_cfg_pp euler_ancestral_cfg_pp dpmpp_2s_ancestral_cfg_pp "
     "dpmpp_2m_cfg_pp res_multistep_cfg_pp res_multistep_ancestral_cfg_pp "
     "gradient_estimation_cfg_pp",
     "CFG++ steps with the estimate without the prompt by itself, which is not kept apart"},
    {"ipndmscheduler",
     "its noise levels are of its own, and no such network was trained at them: ipndm is its "
     "method over the network's"},
    {"flowmatcheulerdiscretescheduler flowmatchheundiscretescheduler flowmatchlcmscheduler "
     "scmscheduler",
     kFlow},
    {"cosinedpmsolvermultistepscheduler", "it is for networks of sound"},
    {"ddiminversescheduler dpmsolvermultistepinversescheduler repaintscheduler "
     "vqdiffusionscheduler unclipscheduler cmstochasticiterativescheduler scoresdevescheduler "
     "karrasvescheduler amusedscheduler",
     kOtherUse},
};

constexpr RefusedRow kRefusedGrids[] = {
    {"align_your_steps_gits gits ays_gits align_your_steps_11 ays_11 align_your_steps_32 ays_32",
     "latentd has no such table; align_your_steps is there"},
};

bool Contains(absl::Span<const absl::string_view> names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Setting>
bool Has(const std::optional<Setting>& setting, Setting value) {
  return setting.value_or(value) == value;
}

int Settings(const SchedulerRow& row) {
  return row.algorithm_type.has_value() + row.solver_type.has_value() +
         row.solver_order.has_value();
}

}  // namespace

bool Scheduler::HasField(absl::string_view name) const {
  return Contains(kCommonFields, name) || Contains(fields, name) ||
         (spaces_timesteps && Contains(kSpacingFields, name));
}

absl::Span<const SchedulerRow> SchedulerTable() { return kTable; }
absl::Span<const GridRow> GridTable() { return kGrids; }
absl::Span<const RefusedRow> RefusedSchedulers() { return kRefused; }
absl::Span<const RefusedRow> RefusedGrids() { return kRefusedGrids; }

const SchedulerRow& RowOf(const SchedulerConfig& config) {
  const SchedulerRow* best = nullptr;
  const SchedulerRow* any = nullptr;
  for (const SchedulerRow& row : kTable) {
    if (row.scheduler != config.scheduler) continue;
    if (any == nullptr) any = &row;
    const bool fits = Has(row.algorithm_type, config.algorithm_type) &&
                      Has(row.solver_type, config.solver_type) &&
                      Has(row.solver_order, config.solver_order);
    if (fits && (best == nullptr || Settings(row) > Settings(*best))) best = &row;
  }
  return best != nullptr ? *best : *any;
}

absl::string_view SchedulerConfig::name() const { return RowOf(*this).name; }

std::string SchedulerConfig::full_name() const {
  std::string full(name());
  for (const GridRow& row : kGrids) {
    if (row.grid == named_grid) absl::StrAppend(&full, "_", row.name);
  }
  return full;
}

bool SchedulerConfig::takes_eta() const { return scheduler->takes_eta; }

std::vector<std::string> SupportedSchedulerClasses() {
  std::vector<std::string> classes;
  for (const SchedulerRow& row : kTable) {
    const std::string name(row.scheduler->class_name);
    if (name.empty() || std::find(classes.begin(), classes.end(), name) != classes.end()) continue;
    classes.push_back(name);
  }
  return classes;
}

}  // namespace latentd::schedulers
