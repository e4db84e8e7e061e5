#include "core/schedulers/scheduler_table.h"

#include <algorithm>

namespace latentd::schedulers {
namespace {

constexpr SchedulerRow kTable[] = {
    {&kEuler, "euler", "", "Euler", std::nullopt},
    {&kEulerAncestral, "euler_a", "euler_ancestral", "Euler a", std::nullopt},
    {&kDdim, "ddim", "", "DDIM", std::nullopt},
    {&kDpmpp2m, "dpmpp_2m", "", "DPM++ 2M", AlgorithmType::kDpmSolverPlusPlus},
    {&kDpmpp2m, "dpmpp_2m_sde", "", "DPM++ 2M SDE", AlgorithmType::kSdeDpmSolverPlusPlus},
    {&kHeun, "heun", "", "Heun", std::nullopt},
    {&kLcm, "lcm", "", "LCM", std::nullopt},
    {&kPndm, "pndm", "plms", "PLMS", std::nullopt},
    {&kUniPc, "unipc", "uni_pc_bh2", "UniPC", std::nullopt},
    {&kDpmpp3mSde, "dpmpp_3m_sde", "", "DPM++ 3M SDE", std::nullopt},
    {&kLms, "lms", "", "LMS", std::nullopt},
    {&kDeis, "deis", "", "", std::nullopt},
    {&kDpm2, "dpm2", "dpm_2", "DPM2", std::nullopt},
    {&kDpm2Ancestral, "dpm2_a", "dpm_2_ancestral", "DPM2 a", std::nullopt},
    {&kTcd, "tcd", "", "", std::nullopt},
    {&kEdmEuler, "edm_euler", "", "", std::nullopt},
    {&kEdmDpmpp2m, "edm_dpmpp_2m", "", "", AlgorithmType::kDpmSolverPlusPlus},
    {&kEdmDpmpp2m, "edm_dpmpp_2m_sde", "", "", AlgorithmType::kSdeDpmSolverPlusPlus},
};

bool Contains(absl::Span<const absl::string_view> names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool Scheduler::HasField(absl::string_view name) const {
  return Contains(kCommonFields, name) || Contains(fields, name);
}

absl::Span<const SchedulerRow> SchedulerTable() { return kTable; }

std::optional<SchedulerRow> FindScheduler(absl::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const SchedulerRow& row : kTable) {
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return row;
    if (row.scheduler->class_name == name) {
      return SchedulerRow{row.scheduler, row.name, row.alias, row.sampler, std::nullopt};
    }
  }
  return std::nullopt;
}

absl::string_view SchedulerConfig::name() const {
  for (const SchedulerRow& row : kTable) {
    if (row.scheduler != scheduler) continue;
    if (row.algorithm_type.value_or(algorithm_type) == algorithm_type) return row.name;
  }
  return "";
}

bool SchedulerConfig::takes_eta() const { return scheduler->takes_eta; }

std::vector<std::string> SupportedSchedulers() {
  std::vector<std::string> names;
  for (const SchedulerRow& row : kTable) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> SupportedSchedulerClasses() {
  std::vector<std::string> classes;
  for (const SchedulerRow& row : kTable) {
    const std::string name(row.scheduler->class_name);
    if (name.empty() || (!classes.empty() && classes.back() == name)) continue;
    classes.push_back(name);
  }
  return classes;
}

}  // namespace latentd::schedulers
