#include "server/grpc_server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GrpcServerTest : public RunningServer {
 protected:
  absl::StatusOr<std::unique_ptr<GrpcServer>> StartOn(const std::string& listen) {
    return GrpcServer::Start({.listen = listen}, engine_, clock_);
  }
};

TEST_F(GrpcServerTest, PortZeroIsAFreeOneAndKnown) {
  EXPECT_TRUE(absl::StartsWith(server_->address(), "127.0.0.1:"));
  EXPECT_FALSE(absl::EndsWith(server_->address(), ":0"));
  EXPECT_TRUE(
      channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5)));
}

TEST_F(GrpcServerTest, APortInUseIsSaidToBe) {
  EXPECT_THAT(StartOn(server_->address()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(server_->address()), HasSubstr("in use"))));
}

TEST_F(GrpcServerTest, AHostThatIsNotThisMachineIsSaidToBe) {
  EXPECT_THAT(StartOn("192.0.2.1:0"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Cannot assign")));
}

TEST_F(GrpcServerTest, AUnixSocketInUseIsNotTakenOver) {
  const std::string path = absl::StrCat(::testing::TempDir(), "latentd-", getpid(), ".sock");
  const std::string address = absl::StrCat("unix:", path);
  {
    ASSERT_OK_AND_ASSIGN(const auto first, StartOn(address));
    EXPECT_EQ(first->address(), address);
    EXPECT_THAT(StartOn(address), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("another process listens")));
  }
  ASSERT_OK(StartOn(address));  // what a server that is gone left behind is no obstacle
  std::filesystem::remove(path);
}

TEST_F(GrpcServerTest, AUnixSocketInNoFolderIsSaidToBe) {
  EXPECT_THAT(StartOn("unix:/no/such/folder/socket"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("No such file")));
}

}  // namespace
}  // namespace latentd::server
