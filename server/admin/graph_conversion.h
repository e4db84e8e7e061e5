// From what the engine says of graphs and of itself to the protos of GraphCache and Admin.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "core/engine/api/graph_admin.h"
#include "core/engine/api/status.h"
#include "latent/v1/admin.pb.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/generation/basic_conversion.h"
#include "server/process/memory/client_memory.h"

namespace latentd::server::admin {

using generation::FromProto;  // overloads for times and sizes
using generation::ToProto;

latent::v1::Graph ToProto(const engine::GraphEntry& entry);
latent::v1::GraphResult ToProto(const engine::EntryResult& result);
latent::v1::GraphResults ToProto(const std::vector<engine::EntryResult>& results);
latent::v1::MemoryPrediction ToProto(const engine::MemoryPrediction& prediction);
latent::v1::WarmBucketsEvent ToProto(const engine::WarmProgress& progress);
latent::v1::WarmBucketsEvent ToProto(const engine::WarmOutcome& outcome);

// REQUIRES: `tier` is a value of the enum.
engine::CacheTier FromProto(latent::v1::CacheTier tier);

latent::v1::MemoryReport ToProto(const engine::MemoryReport& report);
latent::v1::ClientMemory ToProto(const process::ClientBytes& bytes);
latent::v1::ServerStatus ToProto(const engine::ServerStatus& status, const std::string& version);

}  // namespace latentd::server::admin
