#include "core/pipeline/components.h"

#include <iterator>

#include "absl/strings/str_cat.h"

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

absl::Status CheckComponents(const ComponentModes& modes, bool has_refiner) {
  for (const auto& [name, mode] : modes) {
    if (IsComponentName(name)) continue;
    return absl::InvalidArgumentError(NoSuchComponent(name));
  }
  if (!IsOff(modes, "unet_base")) return absl::OkStatus();
  if (has_refiner && !IsOff(modes, "unet_refiner") && !IsOff(modes, "vae_encoder")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "unet_base is off, so that only the refiner could draw, which takes a "
      "refiner's checkpoint, "
      "unet_refiner and, since it starts from an image, vae_encoder");
}

}  // namespace latentd::pipeline
