// A ModelAdmin lists and pins the models that requests can name: the engine's side of
// latent.v1.Models. Plain data; no tensor, no proto.
//
// Thread-safe: every method may be called from any thread once the engine's state has left
// kLoading (before, they return UNAVAILABLE with reason LOADING).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/pipeline/spec/models/model_table.h"

namespace latentd::engine {

// A model that requests can name.
struct ModelStatus {
  std::string name;
  std::string checkpoint;
  std::string family;
  pipeline::Residency residency = pipeline::Residency::kReady;
  bool pinned = false;
  bool loaded = false;               // a device has all that images of one of its buckets need
  std::vector<std::string> devices;  // "device 0": these, where there are several
  int graphs_ready = 0, graphs_total = 0;  // graphs of its buckets that images need, on that device
  absl::Time last_use = absl::InfinitePast();  // wall clock
};

class ModelAdmin {
 public:
  virtual ~ModelAdmin() = default;

  // The models that draw, in the order of the table.
  virtual absl::StatusOr<std::vector<ModelStatus>> List() const = 0;
  // NOT_FOUND, reason NO_SUCH_MODEL, names those that there are.
  virtual absl::Status Pin(const std::string& name, bool pinned) = 0;
};

}  // namespace latentd::engine
