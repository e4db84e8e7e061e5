#include "core/schedulers/sampler_name.h"

#include "absl/strings/str_cat.h"
#include "core/schedulers/scheduler_names.h"

namespace latentd::schedulers {

absl::string_view SamplerOf(const Overrides& chosen) {
  const auto choice = ChooseByName(chosen.name);
  if (!choice.ok()) return chosen.name;
  const SchedulerRow* row = choice->row;
  if (chosen.algorithm_type == "sde-dpmsolver++") {
    const auto sde = ChooseByName(absl::StrCat(row->name, "_sde"));
    if (sde.ok()) row = sde->row;
  }
  return row->sampler.empty() ? row->name : row->sampler;
}

absl::string_view ScheduleTypeOf(const Overrides& chosen) {
  const auto choice = ChooseByName(chosen.name);
  if (choice.ok() && choice->grid != nullptr) return choice->grid->schedule_type;
  return chosen.use_karras_sigmas.value_or(false) ? "Karras" : "";
}

}  // namespace latentd::schedulers
