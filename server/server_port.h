// An address that gRPC services are called at.
#pragma once

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace latentd::server {

// Thread-safe.
class ServerPort {
 public:
  // Listens on HOST:PORT or unix:PATH; reflection is among the services. `services` outlive the
  // port. FAILED_PRECONDITION says why an address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<ServerPort>> Open(
      const std::string& listen, int64_t max_message_bytes,
      const std::vector<grpc::Service*>& services);
  // Cancels what runs, and waits for it.
  ~ServerPort();

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

  // No new calls; those that still run after `timeout` are cancelled. Blocks.
  void Close(absl::Duration timeout);

 private:
  ServerPort(std::unique_ptr<grpc::Server> server, std::string address);

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
};

}  // namespace latentd::server
