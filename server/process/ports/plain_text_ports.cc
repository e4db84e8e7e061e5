#include "server/process/ports/plain_text_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "server/process/logs/log.h"
#include "server/process/logs/rate_limit.h"

namespace latentd::server::process {
namespace {

// Connections with higher descriptors are not looked at.
constexpr int kMostDescriptors = 1 << 16;

class PlainTextPorts {
 public:
  void Add(int port) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ports_.insert(port);
  }

  bool Has(int port) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return ports_.count(port) > 0;
  }

 private:
  mutable absl::Mutex mutex_;
  std::set<int> ports_ ABSL_GUARDED_BY(mutex_);
};

PlainTextPorts& Ports() {
  static auto& ports = *new PlainTextPorts;
  return ports;
}

// By descriptor: it is in plain text, and has said nothing yet.
std::atomic<bool> has_said_nothing[kMostDescriptors];

// 0: not a port.
int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

bool BeginsTls(absl::string_view bytes) {
  constexpr absl::string_view kHandshake = "\x16\x03";  // its type and its major version
  return absl::StartsWith(bytes, kHandshake);
}

void LogTls() {
  static auto& limit = *new RateLimit(SystemClock(), kLogPause);
  LogRarely(limit, "connection refused",
            {{"reason", "the client speaks TLS, and this port does not"}});
}

}  // namespace

void ExpectPlainText(int port) { Ports().Add(port); }

void NoteConnection(int listener, int connection) {
  if (connection < 0 || connection >= kMostDescriptors) return;
  has_said_nothing[connection] = Ports().Has(PortOf(listener));
}

}  // namespace latentd::server::process

// Stands before the C library's, as connection_limit.cc's accept4 does.
extern "C" ssize_t recvmsg(int connection, msghdr* message, int flags) {
  using namespace latentd::server::process;  // NOLINT(google-build-using-namespace)
  const ssize_t received = syscall(SYS_recvmsg, connection, message, flags);
  if (received <= 0 || connection >= kMostDescriptors) return received;
  if (!has_said_nothing[connection]) return received;
  has_said_nothing[connection] = false;
  const iovec& first = message->msg_iov[0];
  const size_t size = std::min(first.iov_len, static_cast<size_t>(received));
  if (BeginsTls({static_cast<const char*>(first.iov_base), size})) LogTls();
  return received;
}
