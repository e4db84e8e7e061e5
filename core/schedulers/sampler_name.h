// AUTOMATIC1111's names for a scheduler and its grid, in the text that a PNG carries.
//
// Pure.
#pragma once

#include "absl/strings/string_view.h"
#include "core/schedulers/config/options.h"

namespace latentd::schedulers {

// "DPM++ 2M SDE", the sampler of what was chosen; the name itself where that has none. As long as
// `chosen` is.
absl::string_view SamplerOf(const Overrides& chosen);

// "Karras", the schedule type; empty: the sampler's own.
absl::string_view ScheduleTypeOf(const Overrides& chosen);

}  // namespace latentd::schedulers
