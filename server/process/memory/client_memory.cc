#include "server/process/memory/client_memory.h"

#include <algorithm>

#include "server/process/logs/log.h"

namespace latentd::server::process {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kShare = 8;
constexpr int64_t kEnoughReceived = 256 * kMiB;
constexpr int64_t kEnoughRequests = 8;
constexpr int64_t kEnoughPictures = 512 * kMiB;
constexpr int64_t kEnoughVideos = 256 * kMiB;
// Memory that is not counted (engine::MemoryBudget::kReserve), and the start's before it opens
// its models: 4 MiB with the demo.
constexpr int64_t kUncounted = 72 * kMiB;

// A request with what gRPC needs around its parts.
int64_t InTransit(int64_t request_bytes) { return request_bytes + request_bytes / 4; }

}  // namespace

ClientMemory ClientMemoryOf(int64_t memory, int64_t configured, int64_t max_request_bytes,
                            int64_t picture_bytes, bool keeps_videos) {
  const int64_t share = (configured > 0 ? std::min(configured, memory) : memory) / kShare;
  const int64_t least = InTransit(max_request_bytes);
  const int64_t most = std::max(kEnoughReceived, kEnoughRequests * max_request_bytes);
  ClientMemory of_clients = {
      .received_bytes = std::clamp(share, least, most),
      .picture_bytes = picture_bytes > 0 ? picture_bytes : std::min(share, kEnoughPictures),
      .video_bytes = std::min(share, kEnoughVideos)};
  const int64_t together = of_clients.received_bytes + of_clients.picture_bytes +
                           (keeps_videos ? of_clients.video_bytes : 0) + max_request_bytes +
                           kMostLogBytes;
  of_clients.engine_bytes = std::max<int64_t>(memory - together - kUncounted, kMiB);
  if (configured > 0) of_clients.engine_bytes = std::min(of_clients.engine_bytes, configured);
  return of_clients;
}

}  // namespace latentd::server::process
