// Adapters that requests name, each for a use of its own: as a LoRA, a ControlNet or an IP-Adapter;
// and the images that they read.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/image/decode.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/spec/request/adapter.h"

namespace latentd::pipeline {

// Reason for which the model cannot draw with that adapter as one of the kind; empty: it can.
std::string WhyNoAdapter(const LoadedModel& model, AdapterKind kind, const AdapterFacts& facts);

// The adapter of that name, as its files are now. INVALID_ARGUMENT names `field`.name: the server
// has none (`catalogue` is null), or none of that name, or the model cannot draw with it as one of
// the kind; FAILED_PRECONDITION as Catalogue::Find's.
absl::StatusOr<AdapterFacts> FindAdapter(adapters::Catalogue* catalogue, const LoadedModel& model,
                                         AdapterKind kind, const std::string& field,
                                         const std::string& name);

// Size of an image file that an adapter reads. INVALID_ARGUMENT names `field`: the file is empty,
// which `use` says the use of, or it cannot be decoded.
absl::StatusOr<image::Dimensions> ReadAdapterImage(const std::string& field,
                                                   absl::string_view image, absl::string_view use);

}  // namespace latentd::pipeline
