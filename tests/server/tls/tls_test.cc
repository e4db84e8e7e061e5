// TLS of a GrpcServer, by real connections.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "core/metrics/families.h"
#include "tests/server/running_server.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_directory.h"

namespace latentd::server::tls {
namespace {

using ::latentd::testing::StatusIs;
using ::latentd::testing::TemporaryDirectory;
using ::latentd::testing::TestAuthority;
using latentd::tls::KeyPair;
using ::testing::AllOf;
using ::testing::HasSubstr;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class TlsTest : public RunningServer {
 protected:
  void SetUp() override {
    clock_.Advance(absl::Now() - clock_.Wall());
    WritePair(servers_.Issue({.name = "first"}));
    Write(client_ca_, clients_.pem());
    Write(operator_ca_, operators_.pem());
  }

  void WritePair(const KeyPair& pair) {
    Write(cert_, pair.certificate);
    Write(key_, pair.key);
  }

  TlsFiles Pair() const { return {.certificate = cert_, .key = key_}; }

  absl::Status StartErrorOf(const TlsFiles& files) {
    return GrpcServer::Start({.listen = "127.0.0.1:0", .tls_files = files}, engine_, clock_)
        .status();
  }

  // A new connection that believes `authority`, and shows `client` if it has one.
  static std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                                const TestAuthority& authority,
                                                const KeyPair& client = {}) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(
        address, grpc::SslCredentials({authority.pem(), client.key, client.certificate}),
        arguments);
  }

  std::shared_ptr<grpc::Channel> Connect(const KeyPair& client = {}) const {
    return Connect(server_->address(), servers_, client);
  }
  std::shared_ptr<grpc::Channel> ConnectOperator(const KeyPair& client = {}) const {
    return Connect(server_->admin_address(), servers_, client);
  }

  static grpc::Status Capabilities(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    latent::v1::GetCapabilitiesResponse response;
    return latent::v1::ImageGeneration::NewStub(channel)->GetCapabilities(&context, {}, &response);
  }
  static grpc::Status Status(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    latent::v1::ServerStatus response;
    return latent::v1::Admin::NewStub(channel)->GetServerStatus(&context, {}, &response);
  }

  // The status of a call of /SERVICE/METHOD with an empty message.
  static grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    // For a call that is let through, and waits for its request.
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    grpc::Status status;
    call->StartCall(nullptr);
    call->Finish(&status, nullptr);
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
    return status.error_code();
  }

  const TemporaryDirectory directory_;
  const std::string cert_ = directory_.File("cert.pem");
  const std::string key_ = directory_.File("key.pem");
  const std::string client_ca_ = directory_.File("clients.pem");
  const std::string operator_ca_ = directory_.File("operators.pem");
  const TestAuthority servers_{"servers"};
  const TestAuthority clients_{"clients"};
  const TestAuthority operators_{"operators"};
};

TEST_F(TlsTest, ServesThoseWhoBelieveItsAuthority) {
  Start({.tls_files = Pair()});
  EXPECT_TRUE(Capabilities(Connect()).ok());
  // Operators have a socket, which needs none.
  EXPECT_TRUE(Status(ChannelTo(server_->admin_address())).ok());
  EXPECT_EQ(Status(Connect()).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Capabilities(Connect(server_->address(), clients_)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Capabilities(ChannelTo(server_->address())).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, ClientsNeedACertificateOfTheirAuthority) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.tls_files = files});
  EXPECT_TRUE(Capabilities(Connect(clients_.Issue({.name = "alice"}))).ok());

  const grpc::Status without = Capabilities(Connect());
  EXPECT_EQ(without.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(without.error_message(), HasSubstr("client certificate"));
  const grpc::Status wrong = Capabilities(Connect(operators_.Issue({.name = "mallory"})));
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(wrong.error_message(), HasSubstr("CN=mallory"));
  const grpc::Status expired = Capabilities(
      Connect(clients_.Issue({.name = "alice", .end = absl::UnixEpoch() + absl::Hours(1)})));
  EXPECT_EQ(expired.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(expired.error_message(), HasSubstr("expired"));
}

TEST_F(TlsTest, AClientShowsWhatLeadsToItsAuthority) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.tls_files = files});
  const TestAuthority between("between", &clients_);
  KeyPair client = between.Issue({.name = "alice"});
  EXPECT_EQ(Capabilities(Connect(client)).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  client.certificate += between.pem();
  EXPECT_TRUE(Capabilities(Connect(client)).ok());
}

TEST_F(TlsTest, EveryCallIsJudgedWhateverItIsOf) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.tls_files = files});
  for (const char* method : {"/grpc.health.v1.Health/Check", "/no.such.Service/Call",
                             "/latent.v1.ImageGeneration/GenerateStream"}) {
    EXPECT_EQ(Call(Connect(), method), grpc::StatusCode::UNAUTHENTICATED) << method;
  }
}

TEST_F(TlsTest, OperatorsHaveAnAuthorityOfTheirOwn) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  files.operator_authority = operator_ca_;
  Start({.admin_listen = "127.0.0.1:0", .tls_files = files});
  const KeyPair client = clients_.Issue({.name = "alice"});
  const KeyPair op = operators_.Issue({.name = "olga"});
  EXPECT_TRUE(Status(ConnectOperator(op)).ok());
  EXPECT_EQ(Capabilities(Connect(op)).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  for (const char* name :
       {"latent.v1.Admin", "latent.v1.GraphCache", "latent.v1.Models", "latent.v1.Adapters"}) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr);
    ASSERT_GT(service->method_count(), 0);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string method =
          absl::StrCat("/", service->full_name(), "/", service->method(i)->name());
      EXPECT_EQ(Call(ConnectOperator(), method), grpc::StatusCode::UNAUTHENTICATED) << method;
      EXPECT_EQ(Call(ConnectOperator(client), method), grpc::StatusCode::PERMISSION_DENIED)
          << method;
    }
  }
}

TEST_F(TlsTest, NewConnectionsSeeANewCertificateAndOldOnesGoOn) {
  Start({.tls_files = Pair()});
  const auto old_connection = Connect();
  grpc::ClientContext context;
  const auto reader =
      latent::v1::ImageGeneration::NewStub(old_connection)->GenerateStream(&context, Request());
  engine_.WaitForSpec();

  const TestAuthority new_authority("new");
  WritePair(new_authority.Issue({.name = "second"}));
  server_->RefreshTls();
  EXPECT_TRUE(Capabilities(Connect(server_->address(), new_authority)).ok());
  EXPECT_FALSE(Capabilities(Connect()).ok());

  SendPicture("picture");
  latent::v1::GenerateEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(Capabilities(old_connection).ok());
}

TEST_F(TlsTest, HalfANewPairLeavesTheOldOne) {
  Start({.tls_files = Pair()});
  const TestAuthority new_authority("new");
  const KeyPair second = new_authority.Issue({.name = "second"});
  Write(cert_, second.certificate);
  server_->RefreshTls();
  EXPECT_TRUE(Capabilities(Connect()).ok());
  Write(cert_, second.certificate.substr(0, 100));
  server_->RefreshTls();
  EXPECT_TRUE(Capabilities(Connect()).ok());
  WritePair(second);
  server_->RefreshTls();
  EXPECT_TRUE(Capabilities(Connect(server_->address(), new_authority)).ok());
}

TEST_F(TlsTest, SaysWhenCertificatesExpire) {
  const auto expiry = [this](const char* certificate) {
    const double seconds =
        engine_.metrics().GetGauge(metrics::kTlsCertificateExpiry, {certificate}).Value();
    return absl::FromUnixSeconds(static_cast<int64_t>(seconds));
  };
  const absl::Time soon = absl::FromUnixSeconds(4'000'000'000), later = soon + absl::Hours(1);
  const TestAuthority between("between", &servers_);  // expires tomorrow
  KeyPair server = between.Issue({.name = "server", .end = later});
  server.certificate += between.pem();
  WritePair(server);
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.tls_files = files});
  EXPECT_LT(expiry("server"), soon);
  EXPECT_GT(expiry("server"), absl::UnixEpoch());
  EXPECT_GT(expiry("client_authority"), absl::UnixEpoch());
  EXPECT_EQ(expiry("operator_authority"), absl::UnixEpoch());

  WritePair(servers_.Issue({.name = "server", .end = later}));
  const std::string longer = servers_.Issue({.name = "longer", .end = soon}).certificate;
  Write(client_ca_, clients_.pem() + longer);
  server_->RefreshTls();
  EXPECT_EQ(expiry("server"), later);
  EXPECT_EQ(expiry("client_authority"), soon);
}

TEST_F(TlsTest, AnAuthorityThatIsReplacedCountsForOpenConnections) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.tls_files = files});
  const auto connection = Connect(clients_.Issue({.name = "alice"}));
  ASSERT_TRUE(Capabilities(connection).ok());
  Write(client_ca_, operators_.pem());
  server_->RefreshTls();
  EXPECT_EQ(Capabilities(connection).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Capabilities(Connect(operators_.Issue({.name = "olga"}))).ok());
}

TEST_F(TlsTest, StartingNamesTheFileThatIsNoGood) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  TlsFiles files = Pair();
  files.key = directory_.File("missing.pem");
  EXPECT_THAT(StartErrorOf(files), StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing.pem")));
  files = Pair();
  files.client_authority = key_;
  EXPECT_THAT(StartErrorOf(files), StatusIs(kInvalid, HasSubstr("key.pem: no certificate")));
  Write(key_, servers_.Issue({.name = "other"}).key);
  EXPECT_THAT(StartErrorOf(Pair()),
              StatusIs(kInvalid, AllOf(HasSubstr("key.pem"), HasSubstr("cert.pem"))));
  WritePair(servers_.Issue({.name = "old", .end = absl::UnixEpoch() + absl::Hours(1)}));
  EXPECT_THAT(StartErrorOf(Pair()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             AllOf(HasSubstr("cert.pem"), HasSubstr("expired"))));
}

// The port of probes, which serves health alone.
TEST_F(TlsTest, ProbesNeedNoTlsAndGetHealthAlone) {
  TlsFiles files = Pair();
  files.client_authority = client_ca_;
  Start({.health_listen = "127.0.0.1:0", .tls_files = files});
  const auto channel = ChannelTo(server_->health_address());
  const auto health = grpc::health::v1::Health::NewStub(channel);
  const auto check = [&health](const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = health->Check(&context, request, &response);
    return status.ok() ? static_cast<int>(response.status())
                       : -static_cast<int>(status.error_code());
  };
  for (const char* service : {"", "liveness", "latent.v1.ImageGeneration"}) {
    EXPECT_EQ(check(service), grpc::health::v1::HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(check("latent.v1.Admin"), -grpc::StatusCode::NOT_FOUND);
  for (const char* method : {"/latent.v1.ImageGeneration/GetCapabilities",
                             "/latent.v1.Admin/GetServerStatus", "/latent.v1.GraphCache/ListGraphs",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(Call(channel, method), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  server_->Drain(absl::ZeroDuration());
}

}  // namespace
}  // namespace latentd::server::tls
