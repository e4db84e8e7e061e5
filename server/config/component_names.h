// What components are called in flags and in the API, as engine.h and compiler/graph_label.h have
// them.
#pragma once

#include "absl/strings/string_view.h"

namespace latentd::server::config {

inline constexpr absl::string_view kComponentNames[] = {
    "text_encoder", "text_encoder_2", "unet_base", "unet_refiner", "vae_decoder", "vae_encoder"};

inline bool IsComponentName(absl::string_view name) {
  for (const absl::string_view known : kComponentNames) {
    if (name == known) return true;
  }
  return false;
}

}  // namespace latentd::server::config
