// The server that a command calls.
#pragma once

#include <optional>
#include <string>

#include "client/rpc/channel.h"

namespace latentd::client {

struct Connection {
  std::string server = "127.0.0.1:50051";
  std::optional<Tls> tls;  // none: plain text
  std::string api_key;     // shown with every call; empty: none
  bool help = false;
};

}  // namespace latentd::client
