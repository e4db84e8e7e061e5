// Connections to a latentd.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>

namespace latentd::client {

// How the server is known, and this client to it. Certificates and keys are PEM text.
struct Tls {
  std::string authorities;  // servers' authorities; empty: the system's
  std::string certificate;  // this client's; empty: none
  std::string key;          // given together with it
  std::string server_name;  // the name in the server's certificate; empty: the address's host
};

// HOST:PORT or unix:PATH; without `tls` in plain text. Connects when it is first used.
std::shared_ptr<grpc::Channel> Connect(const std::string& server,
                                       const std::optional<Tls>& tls = std::nullopt);

}  // namespace latentd::client
