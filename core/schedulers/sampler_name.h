// The sampler's name for a scheduler, in the text that a PNG carries.
//
// Pure.
#pragma once

#include "absl/strings/string_view.h"
#include "core/schedulers/options.h"

namespace latentd::schedulers {

// "DPM++ 2M SDE", as AUTOMATIC1111's web UI calls what was chosen; the name itself where that has
// none. As long as `chosen` is.
absl::string_view SamplerOf(const Overrides& chosen);

}  // namespace latentd::schedulers
