#include "server/process/ports/connection_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "core/base/files/files.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::process {
namespace {

constexpr int kPlenty = 4096;

// At a free port of the loopback address.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(socket_.get(), Address(), size), 0);
    EXPECT_EQ(listen(socket_.get(), SOMAXCONN), 0);
    EXPECT_EQ(getsockname(socket_.get(), Address(), &size), 0);
  }

  FileDescriptor Connect() {
    FileDescriptor client(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(client.get(), Address(), sizeof(address_)), 0);
    return client;
  }

  FileDescriptor Accept() const {
    return FileDescriptor(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  FileDescriptor AcceptCounting(int& refused) const {
    return FileDescriptor(process::Accept(socket_.get(), SOCK_CLOEXEC, refused));
  }

 private:
  sockaddr* Address() { return reinterpret_cast<sockaddr*>(&address_); }

  const FileDescriptor socket_;
  sockaddr_in address_ = {};
};

class ConnectionLimitTest : public ::testing::Test {
 protected:
  void TearDown() override { ASSERT_OK(LimitConnections(kPlenty)); }
};

TEST_F(ConnectionLimitTest, ClosesWhatIsBeyondIt) {
  Listener listener;
  ASSERT_OK_AND_ASSIGN(const int taken, LimitConnections(1));
  EXPECT_EQ(taken, 1);
  std::vector<FileDescriptor> clients;
  for (int i = 0; i < kOtherDescriptors; ++i) clients.push_back(listener.Connect());

  EXPECT_EQ(listener.Accept().get(), -1);
  for (const FileDescriptor& client : clients) {
    char byte = 0;
    EXPECT_LE(recv(client.get(), &byte, 1, 0), 0);
  }

  clients.clear();
  const FileDescriptor client = listener.Connect();
  EXPECT_GE(listener.Accept().get(), 0);
}

TEST_F(ConnectionLimitTest, CountsWhatIsBeyondIt) {
  Listener listener;
  ASSERT_OK(LimitConnections(1));
  std::vector<FileDescriptor> clients;
  for (int i = 0; i < kOtherDescriptors; ++i) clients.push_back(listener.Connect());
  int refused = 2;
  EXPECT_EQ(listener.AcceptCounting(refused).get(), -1);
  EXPECT_EQ(refused, 2 + kOtherDescriptors);

  clients.clear();
  const FileDescriptor client = listener.Connect();
  EXPECT_GE(listener.AcceptCounting(refused).get(), 0);
  EXPECT_EQ(refused, 2 + kOtherDescriptors);
}

TEST_F(ConnectionLimitTest, AsksTheSystemForAsManyDescriptorsAsItNeeds) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = kOtherDescriptors + 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t most = std::min<rlim_t>(limit.rlim_max - kOtherDescriptors, 500);

  ASSERT_OK_AND_ASSIGN(const int taken, LimitConnections(500));

  EXPECT_EQ(taken, static_cast<int>(most));
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, most + kOtherDescriptors);
}

TEST_F(ConnectionLimitTest, TakesFewerWhereTheSystemAllowsFewer) {
  constexpr int kTooMany = 2'000'000'000;
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t most = std::min<rlim_t>(limit.rlim_max, kTooMany + kOtherDescriptors);

  ASSERT_OK_AND_ASSIGN(const int taken, LimitConnections(kTooMany));

  EXPECT_EQ(taken, static_cast<int>(most) - kOtherDescriptors);
}

}  // namespace
}  // namespace latentd::server::process
