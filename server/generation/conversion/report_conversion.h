// From what the engine says of itself to the protos: its status, its graphs and its memory.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "core/engine/api/graph_admin.h"
#include "core/engine/api/status.h"
#include "latent/v1/admin.pb.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/process/memory/client_memory.h"

namespace latentd::server::generation {

latent::v1::Graph ToProto(const engine::GraphEntry& entry);
latent::v1::MemoryPrediction ToProto(const engine::MemoryPrediction& prediction);
latent::v1::MemoryReport ToProto(const engine::MemoryReport& report);
latent::v1::ClientMemory ToProto(const process::ClientBytes& bytes);
latent::v1::ServerStatus ToProto(const engine::ServerStatus& status, const std::string& version);

}  // namespace latentd::server::generation
