// The gRPC side of the process: one port, the services, and the order in which they stop.
//
// Life: Start (health NOT_SERVING, generation UNAVAILABLE) -> SetReady -> Drain -> destroyed.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "server/active_calls.h"
#include "server/health_service.h"
#include "server/image_generation_service.h"

namespace latentd::server {

// Thread-safe.
class GrpcServer {
 public:
  struct Options {
    std::string listen;  // HOST:PORT, unix:PATH
    int64_t max_request_bytes = 32 << 20;
    std::string version;
  };

  // `engine` and `clock` must outlive the server. FAILED_PRECONDITION says why an address cannot be
  // listened on.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options,
                                                           engine::Engine& engine,
                                                           const Clock& clock);
  ~GrpcServer();

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

  // The engine takes requests; ignored after Drain.
  void SetReady();

  // Cancels calls whose client has stopped reading; call it every second or so.
  void CancelStalled() { calls_.CancelStalled(clock_.Monotonic()); }

  // Health says NOT_SERVING, the engine drains, what still runs after `timeout` is cancelled, all
  // streams end. Blocks.
  void Drain(absl::Duration timeout);

  // Of pictures that wait for their clients.
  int64_t held_bytes() const { return calls_.held_bytes(); }

 private:
  GrpcServer(const Options& options, engine::Engine& engine, const Clock& clock);
  absl::Status Listen(const Options& options);

  engine::Engine& engine_;
  const Clock& clock_;
  ActiveCalls calls_;
  HealthService health_;
  ImageGenerationService image_generation_;
  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;  // last: it uses what is above
};

}  // namespace latentd::server
