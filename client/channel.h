// Connections to a latentd.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace latentd::client {

// HOST:PORT or unix:PATH. Connects when it is first used.
std::shared_ptr<grpc::Channel> Connect(const std::string& server);

}  // namespace latentd::client
