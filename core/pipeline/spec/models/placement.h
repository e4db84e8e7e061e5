// Places models on several devices: each is there from the start on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace latentd::pipeline {

enum class Placement : uint8_t {
  kAll,     // every device has every model
  kBudget,  // as many models as its memory has room for
};

// A device that models are placed on.
struct DeviceRoom {
  std::string name;   // to logs
  int64_t bytes = 0;  // room for models, with all that they need to draw
};

// A model that is not loaded on demand, with those that it hands over to.
struct PlacedModel {
  int64_t weight_bytes = 0;
  bool pinned = false;
};

// For each model the devices that have it, by their numbers, ascending. First each model gets one
// device, pinned and large ones first, the one with most room left; then more, in turn, while there
// is room. None: there is no room beside the others, and requests load it where they are drawn. A
// pinned one is always on one device.
//
// Weights may have four fifths of a device, but for one that is alone on it: their graphs need the
// rest.
std::vector<std::vector<size_t>> PlaceModels(absl::Span<const PlacedModel> models,
                                             absl::Span<const DeviceRoom> devices);

}  // namespace latentd::pipeline
