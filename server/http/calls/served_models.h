// The models that requests may name over HTTP: by the name of their checkpoint, as
// people know them, or as gRPC has them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/api/capabilities.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::http {

struct ServedModel {
  std::string id;         // unique: the checkpoint's name, else the model's own
  std::string component;  // GenerateRequest's `model`
  int default_steps = 0;
  pipeline::Size default_size = {};
};

// All that a request may name, and fields that it has where it does not set them.
struct Offer {
  std::vector<ServedModel> models;
  std::vector<std::string> loras;  // adapters that prompts may name
  latent::v1::GenerateRequest defaults;
};

// Models that draw pictures, and those that draw videos, in the server's order; the first is the
// default. Thread-safe; free functions.
std::vector<ServedModel> ModelsOf(const engine::Capabilities& capabilities);
std::vector<ServedModel> VideoModelsOf(const engine::Capabilities& capabilities);

// The model of that id or component. Names of OpenAI's own models, which its clients have written
// into them, are the default's, and so is an empty one. INVALID_ARGUMENT, reason MODEL_NOT_FOUND,
// lists those that there are. The same.
absl::StatusOr<ServedModel> FindModel(const std::vector<ServedModel>& models,
                                      absl::string_view name);

}  // namespace latentd::server::http
