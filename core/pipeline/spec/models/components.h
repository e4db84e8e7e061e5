// The components of the checkpoints by their names, and how each one runs.
// text_encoder_2, vae_decoder, vae_encoder and vae_tiny are those of base and refiner alike; models
// that draw videos have an image_encoder in place of text encoders.
//
// Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/text/text.h"
#include "core/device/dtype.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {

// Compiled; op by op on the reference backend; or not at all: neither loaded nor packed, and what
// needs it is refused.
enum class ComponentMode : uint8_t { kCompiled, kReference, kOff };

// The VAE that draws previews.
inline constexpr absl::string_view kVaeTinyName = "vae_tiny";

inline constexpr absl::string_view kUnetName = "unet";

// A ControlNet beside a model, of its adapters.
inline constexpr absl::string_view kControlNetName = "control_net";
// An IP-Adapter beside a model, likewise, and what encodes its images.
inline constexpr absl::string_view kIpAdapterName = "ip_adapter";
inline constexpr absl::string_view kImageEncoderName = "image_encoder";

// As graphs, weights and metrics name them, beside their model.
inline constexpr absl::string_view kGraphComponents[] = {
    "text_encoder", "text_encoder_2", kUnetName,         "vae_decoder", "vae_encoder",
    kVaeTinyName,   kControlNetName,  kImageEncoderName, kIpAdapterName};

// As operators name them in flags.
inline constexpr absl::string_view kComponentNames[] = {
    "text_encoder", "text_encoder_2", "unet_base",  "unet_refiner",
    "vae_decoder",  "vae_encoder",    kVaeTinyName, "image_encoder"};

// Parts of a step that two devices share (core/pipeline/graphs/step_graph.h), as labels of graphs
// begin with them.
inline constexpr char kNetworkPart[] = "network", kAdvancePart[] = "advance";

inline bool IsOfSplitStep(absl::string_view part) {
  return absl::StartsWith(part, kNetworkPart) || absl::StartsWith(part, kAdvancePart);
}

// True if the server does without a graph of that component and part, and of so many rows, which
// steps alone have more than one of: one that draws previews, and steps for pictures or devices to
// share.
inline bool IsDispensable(absl::string_view component, absl::string_view part, int rows) {
  return component == kVaeTinyName || rows > kMaxRowsOfPicture || IsOfSplitStep(part);
}

inline bool IsComponentName(absl::string_view name) {
  return std::find(std::begin(kComponentNames), std::end(kComponentNames), name) !=
         std::end(kComponentNames);
}

// Error text for a name that no component has.
inline std::string NoSuchComponent(absl::string_view name) {
  return absl::StrCat("there is no component \"", Excerpt(name), "\"; there are ",
                      absl::StrJoin(kComponentNames, ", "));
}

// The name of a model's component among these. The refiner has a UNet of its own, "unet_refiner";
// "unet_base" is that of the base, and of every model that --model gives.
std::string FlagNameOf(absl::string_view component, absl::string_view model);

// By name; what is not named is compiled.
using ComponentModes = std::map<std::string, ComponentMode>;

// Dtypes that components compute in, by name: f32, bf16 or f16, or of UNets f8_e4m3
// (core/pipeline/graphs/precision.h); one that is not named, in f32.
using ComponentDTypes = std::map<std::string, device::DType>;

bool IsOff(const ComponentModes& modes, absl::string_view component);
bool IsReference(const ComponentModes& modes, absl::string_view component);

// INVALID_ARGUMENT: a name that is none of kComponentNames, or a combination with which nothing
// could be drawn by any of the models.
absl::Status CheckComponents(const ComponentModes& modes, const ModelTable& models);

}  // namespace latentd::pipeline
