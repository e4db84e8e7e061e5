#include "client/options/admin_address.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <fstream>

#include "client/commands/command_options.h"
#include "core/base/files/files.h"
#include "tests/support/temporary_directory.h"

namespace latentd::client {
namespace {

class AdminAddressTest : public ::testing::Test {
 protected:
  void MakeSocket(const std::string& path) {
    sockaddr_un address = {.sun_family = AF_UNIX};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  Connection Used(const std::string& server) const {
    Connection connection{.server = server, .tls = Tls()};
    UseAdminSocket(folder_.path(), connection);
    return connection;
  }

  const testing::TemporaryDirectory folder_;  // its user's alone
  const std::string socket_ = folder_.File("50051.sock");
};

TEST_F(AdminAddressTest, AServerOfThisMachineIsCalledAtItsSocketInPlainText) {
  MakeSocket(socket_);
  for (const char* server : {"127.0.0.1:50051", "localhost:50051", "[::1]:50051"}) {
    EXPECT_EQ(Used(server).server, "unix:" + socket_);
    EXPECT_FALSE(Used(server).tls.has_value());
  }
}

TEST_F(AdminAddressTest, OtherServersStayAsTheyAre) {
  MakeSocket(socket_);
  for (const char* server : {"127.0.0.1:50052", "10.0.0.1:50051", "example.org:50051", "unix:/s"}) {
    EXPECT_EQ(Used(server).server, server);
    EXPECT_TRUE(Used(server).tls.has_value());
  }
}

TEST_F(AdminAddressTest, WhatIsNoSocketIsNotUsed) {
  std::ofstream(socket_) << "text";
  EXPECT_EQ(Used("127.0.0.1:50051").server, "127.0.0.1:50051");
}

TEST_F(AdminAddressTest, ASocketThatOthersMayHaveMadeIsNotUsed) {
  MakeSocket(socket_);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  EXPECT_EQ(Used("127.0.0.1:50051").server, "127.0.0.1:50051");
}

TEST_F(AdminAddressTest, TheEnvironmentNamesTheDefault) {
  Connection connection;
  ASSERT_EQ(unsetenv("LATENT_ADMIN"), 0);
  AdminServerOption(connection);
  EXPECT_EQ(connection.server, "127.0.0.1:50051");
  ASSERT_EQ(setenv("LATENT_ADMIN", "unix:/run/latentd/admin.sock", 1), 0);
  AdminServerOption(connection);
  EXPECT_EQ(connection.server, "unix:/run/latentd/admin.sock");
  const auto words =
      ParseCommand({{"", {AdminServerOption(connection)}}}, {"--server=host:1"}, connection);
  EXPECT_TRUE(words.ok());
  EXPECT_EQ(connection.server, "host:1");
  ASSERT_EQ(unsetenv("LATENT_ADMIN"), 0);
}

}  // namespace
}  // namespace latentd::client
