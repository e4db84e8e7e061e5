// Adapters as the API shows them.
//
// Thread-safe: a free function without state.
#pragma once

#include "core/pipeline/spec/request/adapter.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

latent::v1::AdapterInfo ToProto(const pipeline::AdapterFacts& facts);

}  // namespace latentd::server::generation
