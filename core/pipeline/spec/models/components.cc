#include "core/pipeline/spec/models/components.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::pipeline {
namespace {

bool Is(const ComponentModes& modes, absl::string_view component, ComponentMode mode) {
  const auto found = modes.find(std::string(component));
  return found != modes.end() && found->second == mode;
}

}  // namespace

bool IsOff(const ComponentModes& modes, absl::string_view component) {
  return Is(modes, component, ComponentMode::kOff);
}

bool IsReference(const ComponentModes& modes, absl::string_view component) {
  return Is(modes, component, ComponentMode::kReference);
}

std::string FlagNameOf(absl::string_view component, absl::string_view model) {
  if (component != kUnetName) return std::string(component);
  return model == "refiner" ? "unet_refiner" : "unet_base";
}

absl::Status CheckComponents(const ComponentModes& modes, const ModelTable& models) {
  for (const auto& [name, mode] : modes) {
    if (IsComponentName(name)) continue;
    return absl::InvalidArgumentError(NoSuchComponent(name));
  }
  std::set<std::string> off;
  for (const ModelRow& model : models.rows()) {
    const std::string unet = FlagNameOf(kUnetName, model.name);
    const bool lacks_image = model.is_refiner && IsOff(modes, "vae_encoder");
    if (!IsOff(modes, unet) && !lacks_image) return absl::OkStatus();
    off.insert(unet);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no model could draw: a server needs ", absl::StrJoin(off, " or "),
                   ", and a refiner, since it starts from an image, vae_encoder too"));
}

}  // namespace latentd::pipeline
