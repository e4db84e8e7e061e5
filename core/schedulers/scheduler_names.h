// Meaning of a noise scheduler's name, in the words of diffusers, AUTOMATIC1111's web UI,
// ComfyUI and k-diffusion alike: "DPM++ 2M SDE Karras", "dpmpp_2m_sde" with "karras" behind it,
// "sample_dpmpp_2m_sde", "DPMSolverMultistepScheduler". Upper and lower case are the same, and so
// are all of " _-/:,()" between words.
//
// Pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/schedulers/scheduler_table.h"

namespace latentd::schedulers {

struct SchedulerChoice {
  const SchedulerRow* row = nullptr;
  const GridRow* grid = nullptr;  // named behind it; null: none
  // True of a class of diffusers, which says nothing of the row's settings.
  bool by_class = false;
};

// "dpmpp_2m_sde_karras" of "DPM++ 2M SDE Karras".
std::string NormalName(absl::string_view name);

// INVALID_ARGUMENT, with why and the nearest names, for a name that there is not, or a grid behind
// a scheduler with one of its own.
absl::StatusOr<SchedulerChoice> ChooseByName(absl::string_view name);

}  // namespace latentd::schedulers
