// The HTTP side of the process: a port whose requests for pictures are Generations as those of
// gRPC, in the same queue and by the same rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/active_calls.h"
#include "server/http/exchange/origin.h"
#include "server/http/own/own_answers.h"
#include "server/http/videos/video_jobs.h"
#include "server/process/lifetime/health.h"
#include "server/tls/tls.h"

namespace latentd::server::http {

// Thread-safe.
class HttpServer {
 public:
  struct Options {
    std::string listen;  // HOST:PORT
    int64_t max_request_bytes = 32 << 20;
    const tls::Tls* tls = nullptr;  // outlives the server; null: plain text
    Origins cors_origins;           // whose pages may ask, besides its own (exchange/origin.h)
    latent::v1::GenerateRequest defaults = {};  // request/http_defaults.h
    bool has_page = true;                       // page/page.h
    std::string version;
    AskClientMemory client_memory;  // as of OwnAnswers
    // Between two looks at videos that no client asks about (videos/video_jobs.h).
    absl::Duration sweep_pause = absl::Seconds(1);
  };

  // Listens. What `environment` refers to, `health` and `videos`, whose work ends with the
  // server's, outlive it. FAILED_PRECONDITION says why an address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const Options& options,
                                                            generation::CallEnvironment environment,
                                                            const process::Health& health,
                                                            VideoJobs& videos);
  // Cancels what runs, and waits for it as long as Close.
  ~HttpServer();

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

  // Health is that of `health` from then on, too, and what draws is the engine's to refuse; but
  // each connection ends with the answer that it waits for, or with its first one. A file that a
  // client still reads when the last picture is through is cut by Close.
  void BeginDrain();

  // Takes no more connections, closes those that are left, and waits until they have ended. Once.
  void Close();

 private:
  class Port;

  explicit HttpServer(std::unique_ptr<Port> port);

  const std::unique_ptr<Port> port_;
  std::string address_;
};

}  // namespace latentd::server::http
