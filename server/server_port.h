// An address that gRPC services are called at.
#pragma once

#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/server_credentials.h>
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
  struct Options {
    std::string listen;  // HOST:PORT or unix:PATH
    int64_t max_message_bytes = 0;
    // Byte limit of received messages that no call has read, and of calls' memory there. gRPC ends
    // idle connections, and after them calls, that want more.
    int64_t received_bytes = 0;
    std::vector<grpc::Service*> services;  // outlive the port
    bool reflection = true;
    bool owner_only = false;  // a Unix socket is for this process's user (0600)
    // Clients of a connection that is older, give or take a tenth, are told to use another for
    // their next call; its calls are cancelled when the grace is over.
    absl::Duration max_connection_age = absl::InfiniteDuration();
    absl::Duration max_connection_age_grace = absl::InfiniteDuration();
    std::shared_ptr<grpc::ServerCredentials> credentials;  // null: plain text
  };

  // FAILED_PRECONDITION says why an address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<ServerPort>> Open(const Options& options);
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
