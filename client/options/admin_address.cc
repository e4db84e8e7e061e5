#include "client/options/admin_address.h"

#include <sys/stat.h>

#include <cstdlib>

#include "absl/strings/strip.h"
#include "core/base/process/admin_socket.h"
#include "core/base/text/host_port.h"

namespace latentd::client {
namespace {

bool IsSocket(absl::string_view address) {
  const std::string path(absl::StripPrefix(address, "unix:"));
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

}  // namespace

std::string DefaultAdminServer() {
  const char* named = std::getenv("LATENT_ADMIN");
  return named != nullptr && *named != '\0' ? named : Connection().server;
}

void UseAdminSocket(const std::string& folder, Connection& connection) {
  if (!IsLoopback(connection.server)) return;
  const std::string port = connection.server.substr(connection.server.rfind(':') + 1);
  const std::string socket = AdminSocketAddress(folder, port);
  // A socket in a folder that others may write to can be another user's.
  if (!IsSocket(socket) || !CheckOwnFolder(folder).ok()) return;
  connection.server = socket;
  connection.tls.reset();
}

}  // namespace latentd::client
