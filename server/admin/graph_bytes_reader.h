// The compiled graphs in a stream of GraphBytes, put together again. Bounded: holds one graph, of
// which it takes no more than came.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "latent/v1/graph_cache.pb.h"

namespace latentd::server::admin {

struct ImportLimits {
  int64_t graph_bytes = 0;   // limit of one graph
  int64_t stream_bytes = 0;  // limit of all of them
};

inline constexpr size_t kMaxGraphChunkBytes = 1 << 20;
inline constexpr int kMaxImportedGraphs = 4096;

// Not thread-safe. Of no use after an error.
class GraphBytesReader {
 public:
  explicit GraphBytesReader(ImportLimits limits) : limits_(limits) {}

  // The next message; returns the graph that it completes. DATA_LOSS: the stream is damaged;
  // RESOURCE_EXHAUSTED, reason CACHE_BUDGET: more than the limits; INVALID_ARGUMENT: a message that
  // is too large.
  absl::StatusOr<std::optional<std::string>> Add(const latent::v1::GraphBytes& message);
  // The same message as it came; INVALID_ARGUMENT if it is none (request_parser.h).
  absl::StatusOr<std::optional<std::string>> Add(const grpc::ByteBuffer& bytes);

  // The stream ends here. DATA_LOSS: in the middle of a graph.
  absl::Status End() const;

 private:
  absl::Status Begin(int64_t total_bytes);

  const ImportLimits limits_;
  std::string graph_;
  int64_t graph_bytes_ = 0;   // bytes of the graph that has begun; 0: none has
  int64_t stream_bytes_ = 0;  // bytes of the graphs that have begun
  int count_ = 0;
};

}  // namespace latentd::server::admin
