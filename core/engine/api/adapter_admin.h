// An AdapterAdmin lists, loads, evicts and pins adapters: the engine's side of latent.v1.Adapters.
// Plain data; no tensor, no proto.
//
// Thread-safe: every method may be called from any thread once the engine's state has left
// kLoading (before, they return UNAVAILABLE with reason LOADING). Load takes as
// long as reading; the others return quickly.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/pipeline/spec/request/adapter.h"

namespace latentd::engine {

// An adapter below --adapters, served or not.
struct AdapterStatus {
  pipeline::AdapterFacts facts;
  bool pinned = false;
  bool loaded = false;  // a device has weights that it is merged into
  int sets = 0;         // sets with it that are kept, by the models and weights of requests
  absl::Time last_use = absl::InfinitePast();  // wall clock
};

class AdapterAdmin {
 public:
  virtual ~AdapterAdmin() = default;

  // Adapters as their folder has them now, in the order of their names; none without --adapters.
  // Reads what is new there.
  virtual absl::StatusOr<std::vector<AdapterStatus>> List() = 0;
  // Reads all of it, for each model that it is for, and says what is wrong with it:
  // FAILED_PRECONDITION, reason ADAPTER_UNUSABLE. NOT_FOUND, reason NO_SUCH_ADAPTER, as of the
  // following.
  virtual absl::Status Load(const std::string& name) = 0;
  // Weights that it is merged into leave memory. FAILED_PRECONDITION, reason IN_USE.
  virtual absl::Status Evict(const std::string& name) = 0;
  // These weights leave for no others.
  virtual absl::Status Pin(const std::string& name, bool pinned) = 0;
};

}  // namespace latentd::engine
