#include "core/schedulers/sampler_name.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/schedulers/scheduler_table.h"

namespace latentd::schedulers {

absl::string_view SamplerOf(const Overrides& chosen) {
  const bool sde = chosen.algorithm_type == "sde-dpmsolver++";
  std::optional<SchedulerRow> row;
  if (sde) row = FindScheduler(absl::StrCat(chosen.name, "_sde"));
  if (!row) row = FindScheduler(chosen.name);
  return row && !row->sampler.empty() ? row->sampler : absl::string_view(chosen.name);
}

}  // namespace latentd::schedulers
