// LoRAs in a prompt of the web UI, "a lighthouse <lora:film:0.8>", which are fields of a request
// here.
//
// Thread-safe: a free function without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::http {

struct PromptNetworks {
  std::string prompt;                         // without them
  std::vector<latent::v1::Adapter> adapters;  // in their order
};

// Takes <lora:NAME>, <lora:NAME:WEIGHT>, <lora:NAME:TEXT_ENCODER_WEIGHT:UNET_WEIGHT> and their
// named form, <lora:NAME:te=0.5:unet=1>, out of a prompt, and leaves all else as it is; "lyco" is
// "lora", as in the web UI. NAME is that of an adapter, or its last part where it is one of `loras`
// alone; another stays as it is. INVALID_ARGUMENT, as the end of a sentence behind the prompt's
// name: a network of another kind, which the web UI would leave out, a weight that is no number,
// and what the web UI has beside weights.
absl::StatusOr<PromptNetworks> TakeNetworks(absl::string_view prompt,
                                            const std::vector<std::string>& loras);

}  // namespace latentd::server::http
