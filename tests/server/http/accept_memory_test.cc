// Connections over HTTP for which there is no memory: each is closed, and once.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/metrics/families.h"
#include "tests/server/closes.h"
#include "tests/server/http/http_client.h"
#include "tests/server/no_memory.h"
#include "tests/server/running_server.h"

namespace latentd::server::http {
namespace {

// The list of connections and a wire are larger, and most else is smaller.
constexpr size_t kLargeBytes = 512;
constexpr int kAttempts = 8;

class AcceptMemoryTest : public RunningServer {
 protected:
  void SetUp() override { Start({.http_listen = "127.0.0.1:0"}); }

  // Connects, and says nothing more; true once the server has closed the connection. Takes no
  // memory.
  static bool IsClosedByServer(const sockaddr_in& to) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    const bool connected =
        connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 &&
        shutdown(client, SHUT_WR) == 0;
    char byte = 0;
    const bool closed = connected && recv(client, &byte, 1, 0) <= 0;
    ::close(client);
    return closed;
  }

  double RefusedForMemory() {
    return engine_.metrics().GetCounter(metrics::kHttpConnectionsRefused, {"memory"}).Value();
  }
};

TEST_F(AcceptMemoryTest, AConnectionWithoutMemoryIsClosedOnce) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  const std::string address = server_->http_address();
  sockaddr_in to = {.sin_family = AF_INET};
  to.sin_port =
      htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int before = testing::ClosesOfWhatIsClosed();
  const double refused = RefusedForMemory();
  for (int given = 0; given < kAttempts; ++given) {
    const testing::NoMemoryFrom none(kLargeBytes, given);
    EXPECT_TRUE(IsClosedByServer(to)) << given;
  }
  EXPECT_EQ(testing::ClosesOfWhatIsClosed(), before);
  EXPECT_GE(RefusedForMemory() - refused, 2);  // for its place, and for its wire
  EXPECT_EQ(HttpClient(address).Ask("GET", "/healthz").code, 200);
}

}  // namespace
}  // namespace latentd::server::http
