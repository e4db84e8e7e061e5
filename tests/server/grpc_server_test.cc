#include "server/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/process/admin_socket.h"
#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
  ASSERT_OK(StartOn(address));  // an ended server's leftovers are no obstacle
  std::filesystem::remove(path);
}

TEST_F(GrpcServerTest, AUnixSocketInNoFolderIsSaidToBe) {
  EXPECT_THAT(StartOn("unix:/no/such/folder/socket"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("No such file")));
}

// Addresses at which the services of operators can be called.
class AdminPlaceTest : public GrpcServerTest {
 protected:
  static grpc::StatusCode StatusAt(const std::string& address) {
    grpc::ClientContext context;
    v1::ServerStatus status;
    return v1::Admin::NewStub(ChannelTo(address))
        ->GetServerStatus(&context, {}, &status)
        .error_code();
  }
  static grpc::StatusCode ListAt(const std::string& address) {
    grpc::ClientContext context;
    v1::ListGraphsResponse response;
    return v1::GraphCache::NewStub(ChannelTo(address))
        ->ListGraphs(&context, {}, &response)
        .error_code();
  }
  static grpc::StatusCode CapabilitiesAt(const std::string& address) {
    grpc::ClientContext context;
    v1::GetCapabilitiesResponse response;
    return v1::ImageGeneration::NewStub(ChannelTo(address))
        ->GetCapabilities(&context, {}, &response)
        .error_code();
  }
  static grpc::StatusCode HealthAt(const std::string& address, const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(ChannelTo(address))
        ->Check(&context, request, &response)
        .error_code();
  }
};

TEST_F(AdminPlaceTest, IsASocketNamedAfterThePort) {
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:0"}) {
    FakeEngine engine;
    ASSERT_OK_AND_ASSIGN(
        const auto server,
        GrpcServer::Start({.listen = listen, .admin_folder = folder_.path()}, engine, clock_));
    const std::string port = server->address().substr(server->address().rfind(':') + 1);
    EXPECT_EQ(server->admin_address(), AdminSocketAddress(folder_.path(), port));
    EXPECT_EQ(StatusAt(server->admin_address()), grpc::StatusCode::OK);
    EXPECT_EQ(StatusAt(server->address()), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(ListAt(server->address()), grpc::StatusCode::UNIMPLEMENTED);
  }
}

TEST_F(AdminPlaceTest, TheSocketIsForItsOwnerAlone) {
  const std::string path = server_->admin_address().substr(sizeof("unix:") - 1);
  struct stat made = {};
  ASSERT_EQ(stat(path.c_str(), &made), 0);
  EXPECT_TRUE(S_ISSOCK(made.st_mode));
  EXPECT_EQ(made.st_mode & 0777, 0600u);
  const std::string named = folder_.File("named.sock");
  FakeEngine engine;
  ASSERT_OK_AND_ASSIGN(const auto server,
                       GrpcServer::Start({.listen = "127.0.0.1:0", .admin_listen = "unix:" + named},
                                         engine, clock_));
  ASSERT_EQ(stat(named.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
  // Modes of files that others make are as they were.
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(mask & 0700, 0u);
}

TEST_F(AdminPlaceTest, AUnixSocketIsShared) {
  FakeEngine engine;
  const std::string address = "unix:" + folder_.File("listen.sock");
  ASSERT_OK_AND_ASSIGN(const auto server, GrpcServer::Start({.listen = address}, engine, clock_));
  EXPECT_EQ(server->admin_address(), address);
  EXPECT_EQ(StatusAt(address), grpc::StatusCode::OK);
  EXPECT_EQ(CapabilitiesAt(address), grpc::StatusCode::OK);
}

TEST_F(AdminPlaceTest, IsNowhereWithoutAFolder) {
  ASSERT_OK_AND_ASSIGN(const auto server, StartOn("127.0.0.1:0"));
  EXPECT_EQ(server->admin_address(), "");
  EXPECT_EQ(StatusAt(server->address()), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ListAt(server->address()), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(HealthAt(server->address(), ""), grpc::StatusCode::OK);
  EXPECT_EQ(HealthAt(server->address(), "latent.v1.Admin"), grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminPlaceTest, AnAddressOfItsOwnHasNothingElse) {
  EXPECT_EQ(StatusAt(server_->admin_address()), grpc::StatusCode::OK);
  EXPECT_EQ(ListAt(server_->admin_address()), grpc::StatusCode::OK);
  EXPECT_EQ(CapabilitiesAt(server_->admin_address()), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CapabilitiesAt(server_->address()), grpc::StatusCode::OK);
  for (const std::string& address : {server_->address(), server_->admin_address()}) {
    for (const char* service : {"", "liveness", "latent.v1.GraphCache", "latent.v1.Admin"}) {
      EXPECT_EQ(HealthAt(address, service), grpc::StatusCode::OK) << address << " " << service;
    }
  }
  server_->Drain(absl::ZeroDuration());
}

TEST_F(AdminPlaceTest, AnAdminAddressInUseIsSaidToBe) {
  FakeEngine engine;
  EXPECT_THAT(GrpcServer::Start({.listen = "127.0.0.1:0", .admin_listen = server_->admin_address()},
                                engine, clock_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(server_->admin_address())));
}

}  // namespace
}  // namespace latentd::server
