// The address that the commands of operators call: what is for them is no part of the port that
// pictures are asked for at.
#pragma once

#include <string>

#include "client/options/connection.h"

namespace latentd::client {

// The default of --server of those commands: $LATENT_ADMIN, else as for all others.
std::string DefaultAdminServer();

// If the connection's server is HOST:PORT of this machine, and that server has its socket for
// operators in `folder` (core/base/process/admin_socket.h): makes it that socket, in plain text.
// Other servers stay as they are.
void UseAdminSocket(const std::string& folder, Connection& connection);

}  // namespace latentd::client
