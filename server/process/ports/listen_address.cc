#include "server/process/ports/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/text/host_port.h"

namespace latentd::server::process {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

absl::Status CannotListen(const std::string& address, absl::string_view reason) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", reason));
}

class Socket {
 public:
  explicit Socket(int family) : descriptor_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// False where the path is longer than a socket's can be.
bool ToSocketAddress(absl::string_view path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

// The reason why a Unix socket cannot be made; empty if it can, and is gone again.
std::string UnixBindFailure(absl::string_view path) {
  sockaddr_un target;
  if (!ToSocketAddress(path, target)) {
    return absl::StrCat("the path is longer than ", sizeof(target.sun_path) - 1, " bytes");
  }
  const Socket socket(AF_UNIX);
  if (bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
    return std::strerror(errno);
  }
  unlink(target.sun_path);
  return "";
}

absl::Status ExplainUnix(const std::string& address, absl::string_view path) {
  const std::string reason = UnixBindFailure(path);
  return CannotListen(address, reason.empty() ? "no reason was given" : reason);
}

// The reason why one address of a host cannot be bound; empty if it can.
std::string BindFailure(const addrinfo& target) {
  const Socket socket(target.ai_family);
  const int on = 1;
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = bind(socket.descriptor(), target.ai_addr, target.ai_addrlen) == 0 &&
                     listen(socket.descriptor(), 1) == 0;
  return bound ? "" : std::strerror(errno);
}

absl::Status ExplainTcp(const std::string& address) {
  const std::string host = HostOf(address);
  const size_t colon = address.rfind(':');
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &freeaddrinfo);
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
    const std::string reason = BindFailure(*target);
    if (!reason.empty()) return CannotListen(address, reason);
  }
  return CannotListen(address, "no reason was given");
}

}  // namespace

bool IsUnixSocket(const std::string& address) { return absl::StartsWith(address, kUnixPrefix); }

absl::Status CheckUnixSocketIsFree(const std::string& address) {
  absl::string_view path = address;
  sockaddr_un target;
  if (!absl::ConsumePrefix(&path, kUnixPrefix) || !ToSocketAddress(path, target)) {
    return absl::OkStatus();
  }
  const Socket socket(AF_UNIX);
  const bool answered =
      connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0;
  return answered ? CannotListen(address, "another process listens there") : absl::OkStatus();
}

absl::Status CheckCanHoldSockets(const std::string& folder) {
  // As long as that of the longest port, and no other process's.
  const std::string name = absl::StrFormat("%010d", getpid());
  const std::string reason = UnixBindFailure(absl::StrCat(folder, "/", name));
  return reason.empty() ? absl::OkStatus()
                        : absl::FailedPreconditionError(absl::StrCat(folder, ": ", reason));
}

absl::Status ExplainListenFailure(const std::string& address) {
  absl::string_view path = address;
  return absl::ConsumePrefix(&path, kUnixPrefix) ? ExplainUnix(address, path) : ExplainTcp(address);
}

}  // namespace latentd::server::process
