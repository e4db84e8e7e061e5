// From what comes of operators' calls to the protos of GraphCache.
//
// Thread-safe: free functions without state.
#pragma once

#include <vector>

#include "core/engine/api/graph_admin.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/generation/conversion/report_conversion.h"

namespace latentd::server::admin {

using generation::FromProto;  // overloads for times and sizes
using generation::ToProto;    // and for what the engine says of itself

latent::v1::GraphResult ToProto(const engine::EntryResult& result);
latent::v1::GraphResults ToProto(const std::vector<engine::EntryResult>& results);
latent::v1::WarmBucketsEvent ToProto(const engine::WarmProgress& progress);
latent::v1::WarmBucketsEvent ToProto(const engine::WarmOutcome& outcome);

// REQUIRES: `tier` is a value of the enum.
engine::CacheTier FromProto(latent::v1::CacheTier tier);

}  // namespace latentd::server::admin
