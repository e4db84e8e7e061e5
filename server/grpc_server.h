// The network side of the process: the services, the ports that they are called at, and the order
// in which they stop. Health follows what the engine says of itself. All but `http_listen` are
// gRPC's.
//
// Pictures and videos are asked for at `listen`. What is for operators (GraphCache, Admin, Models,
// Adapters) is at `admin_listen`; where that is empty, at `listen` too if that is a Unix socket,
// else at one of its own, in `admin_folder` and named after the port of `listen`. What is reached
// by TCP speaks TLS where there is a certificate. Probes, which have none, ask for health and
// nothing else at `health_listen`, in plain text.
//
// Life: Start -> Drain -> destroyed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "core/base/clock.h"
#include "core/base/threads/thread_watch.h"
#include "core/engine/api/hangs.h"
#include "core/engine/api/status.h"
#include "core/engine/engine.h"
#include "server/admin/adapters_service.h"
#include "server/admin/admin_service.h"
#include "server/admin/graph_cache_service.h"
#include "server/admin/health_service.h"
#include "server/admin/models_service.h"
#include "server/calls/image_generation_service.h"
#include "server/calls/video_generation_service.h"
#include "server/generation/active_calls.h"
#include "server/generation/kept_streams.h"
#include "server/http/http_server.h"
#include "server/process/lifetime/background_task.h"
#include "server/process/lifetime/health.h"
#include "server/process/lifetime/status_follower.h"
#include "server/process/memory/client_memory.h"
#include "server/server_port.h"
#include "server/tls/api_key_file.h"
#include "server/tls/tls.h"
#include "server/tracing/span_sender.h"

namespace latentd::server {

// Thread-safe.
class GrpcServer {
 public:
  struct Options {
    std::string listen;         // HOST:PORT, unix:PATH
    std::string admin_listen;   // unix:PATH, HOST:PORT with an operator_authority, or empty
    std::string admin_folder;   // core/base/process/admin_socket.h, made; empty: none can be had
    std::string health_listen;  // HOST:PORT, or empty: nowhere
    std::string http_listen;    // the same
    std::vector<std::string> http_cors_origins;  // server/http/exchange/origin.h
    std::string http_defaults;                   // server/http/request/http_defaults.h
    bool http_page = true;                       // the page for people is there
    tls::TlsFiles tls_files;                     // without a certificate: plain text
    // Keys that callers at `listen` and `http_listen` need one of; outlives the server. Null: none.
    tls::ApiKeyFile* api_keys = nullptr;
    int64_t max_request_bytes = 32 << 20;
    int64_t received_bytes = 256 << 20;  // at `listen` (server_port.h)
    int64_t video_bytes = 256 << 20;     // files of /v1/videos (http/videos/video_jobs.h)
    absl::Duration stall_limit = generation::kStallLimit;
    // Age limit of connections at `listen` (server_port.h).
    absl::Duration max_connection_age = absl::InfiniteDuration();
    absl::Duration max_connection_age_grace = absl::InfiniteDuration();
    std::string version;
    admin::GraphCacheService::Imports imports;
    tracing::SpanSender* spans = nullptr;  // outlives the server; null: spans go nowhere
    admin::RequestStop request_stop = [](std::optional<absl::Duration>) {};
  };

  // `engine` and `clock` must outlive the server; REQUIRES: engine.Load() was not called yet, and
  // no other thread makes files meanwhile, which could be for their owner alone.
  // FAILED_PRECONDITION says why an address cannot be listened on; errors of TLS name the file.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options,
                                                           engine::Engine& engine,
                                                           const Clock& clock);

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return port_->address(); }
  // Address for operators' calls; empty: none.
  std::string admin_address() const;
  // Address for health checks alone; empty: none.
  std::string health_address() const;

  // Address of the HTTP port; empty: none.
  std::string http_address() const;

  // For who says it otherwise than by gRPC; lives as long as this.
  const process::Health& health() const { return health_; }

  // Cancels calls whose client has stopped reading, and resumable requests that no client has come
  // back to; call it every second or so.
  void CancelStalled();

  // While the engine waits for the memory of finished pictures, cancels calls that have let one
  // wait for the stall limit, even if they take a message now and then. The same.
  void MakeRoom();

  // The watch of the thread that calls what is to be called every second or so.
  ThreadWatch& main_watch() { return main_watch_; }

  // Says what hangs in the log, once, and to who watches `liveness` (who asks for it is told what
  // is true then), and by a metric whether the main thread does. The same, from one thread, which
  // does nothing that may hang.
  void CheckHangs();

  // Follows the files of TLS and of keys; the same, from one thread. Waits for a file system that
  // does not answer.
  void RefreshTls();

  // Health says NOT_SERVING, operators' calls end, streams without a reader are dropped, the engine
  // drains, what still runs after `timeout` is cancelled, all streams end. Blocks.
  void Drain(absl::Duration timeout);

  // Says what clients make the process hold now, and shows it by gauges.
  std::vector<process::ClientBytes> client_memory() const;
  void ShowClientMemory() const;

  // Bytes of pictures that wait for their clients.
  int64_t held_bytes() const { return calls_.held_bytes() + kept_.held_bytes(); }

 private:
  enum class AdminPlace { kNowhere, kShared, kOwnPort };
  static AdminPlace PlaceOf(const Options& options);

  GrpcServer(const Options& options, engine::Engine& engine, const Clock& clock);
  admin::OperatorCheck MakeOperatorCheck() const;
  absl::Status Listen(const Options& options);
  absl::Status ListenForAll(const Options& options);
  absl::Status ListenForOperators(const Options& options);
  absl::Status ListenForProbes(const Options& options);
  absl::Status ListenOverHttp(const Options& options);
  // Hangs of the engine and of the server.
  engine::Hangs FindHangs() const;
  // Makes room and cancels stalled calls while the engine drains, which no other code does.
  void FollowDrain();
  void Follow(const engine::ServerStatus& status);
  // Updates all of them, listening or not.
  void UpdateHealthWatches();

  engine::Engine& engine_;
  const Clock& clock_;
  const AdminPlace admin_place_;
  const absl::Duration stall_limit_;
  const int64_t max_request_bytes_, max_received_bytes_;
  generation::ActiveCalls calls_;
  generation::ActiveCalls admin_calls_;
  generation::KeptStreams kept_;
  ThreadWatch main_watch_;
  engine::Hangs known_hangs_;  // CheckHangs' own
  process::Health health_;
  // One for each port: gRPC wants a service for each of its servers.
  admin::HealthService public_health_;
  admin::HealthService admin_health_;
  admin::HealthService probe_health_;
  const generation::CallEnvironment environment_;
  calls::ImageGenerationService image_generation_;
  calls::VideoGenerationService video_generation_;
  admin::GraphCacheService graph_cache_;
  admin::AdminService admin_;
  admin::ModelsService models_;
  admin::AdaptersService adapters_;
  const std::unique_ptr<http::VideoJobs> videos_;  // null: there is no HTTP
  // These use what is above.
  tls::ApiKeyFile* const api_keys_;  // null: callers need none
  std::unique_ptr<tls::Tls> tls_;    // null: plain text
  std::unique_ptr<ServerPort> port_;
  std::unique_ptr<ServerPort> admin_port_;   // null: none of its own
  std::unique_ptr<ServerPort> health_port_;  // null: none
  std::unique_ptr<http::HttpServer> http_;   // null: none
  std::unique_ptr<process::StatusFollower> follower_;
  absl::Notification engine_drained_;
  process::BackgroundTask drain_;
};

}  // namespace latentd::server
