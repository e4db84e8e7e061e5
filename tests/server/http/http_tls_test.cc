// TLS of the HTTP port, by real connections.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "tests/server/http/https_client.h"
#include "tests/server/running_server.h"
#include "tests/support/certificates.h"

namespace latentd::server::http {
namespace {

using latentd::testing::TestAuthority;
using latentd::tls::KeyPair;
using ::testing::HasSubstr;

void PutFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class HttpTlsTest : public RunningServer {
 protected:
  void SetUp() override {
    clock_.Advance(absl::Now() - clock_.Wall());
    PutPair(servers_.Issue({.name = "first"}));
    PutFile(client_ca_, clients_.pem());
  }

  void PutPair(const KeyPair& pair) {
    PutFile(cert_, pair.certificate);
    PutFile(key_, pair.key);
  }

  void Listen(bool asks_clients) {
    const std::string authority = asks_clients ? client_ca_ : "";
    Start({.http_listen = "127.0.0.1:0",
           .tls_files = {.certificate = cert_, .key = key_, .client_authority = authority}});
  }

  // The status of a request that names models, by a connection of its own.
  int ModelsAs(const KeyPair& client) const {
    HttpsClient https(server_->http_address(), servers_.pem(), client);
    return https.Ask("GET", "/v1/models").code;
  }

  static std::string MessageIn(const Received& received) {
    const auto body = nlohmann::json::parse(received.body, nullptr, false);
    return body.is_discarded() ? received.body : body["error"]["message"].get<std::string>();
  }

  const testing::TemporaryDirectory directory_;
  const std::string cert_ = directory_.File("cert.pem");
  const std::string key_ = directory_.File("key.pem");
  const std::string client_ca_ = directory_.File("clients.pem");
  const TestAuthority servers_{"servers"};
  const TestAuthority clients_{"clients"};
  const TestAuthority others_{"others"};
};

TEST_F(HttpTlsTest, APictureOfManyRecordsComesWhole) {
  Listen(/*asks_clients=*/false);
  HttpsClient client(server_->http_address(), servers_.pem());
  ASSERT_TRUE(client.ready());
  EXPECT_EQ(client.protocol(), "http/1.1");
  const std::string bytes(700001, 'p');
  std::thread engine([&] { SendPicture(bytes); });
  const Received received = client.Ask("POST", "/v1/images/generations", R"({"prompt": "a"})");
  engine.join();
  ASSERT_EQ(received.code, 200) << received.body;
  EXPECT_THAT(received.body, HasSubstr(absl::Base64Escape(bytes)));
  EXPECT_EQ(client.Ask("GET", "/healthz").body, "ok\n");
}

TEST_F(HttpTlsTest, ConnectionsWithoutAHandshakeAreCounted) {
  Listen(/*asks_clients=*/false);
  HttpClient plain(server_->http_address());
  plain.Send(HttpClient::Format("GET", "/healthz"));
  while (plain.Read().code != 0) {
  }
  EXPECT_EQ(ModelsAs({}), 200);
  server_.reset();
  metrics::Registry& registry = engine_.metrics();
  EXPECT_EQ(registry.GetCounter(metrics::kHttpConnectionsRefused, {"tls"}).Value(), 1);
  EXPECT_EQ(registry.GetCounter(metrics::kHttpConnectionsAccepted).Value(), 1);
  EXPECT_EQ(registry.GetGauge(metrics::kHttpConnections).Value(), 0);
}

TEST_F(HttpTlsTest, AClientThatLeavesStopsItsWork) {
  Listen(/*asks_clients=*/false);
  HttpsClient client(server_->http_address(), servers_.pem());
  client.Send(HttpClient::Format("POST", "/v1/images/generations", R"({"prompt": "a"})"));
  engine_.WaitForSpec();
  client.Close();
  engine_.WaitUntilCancelled();
}

TEST_F(HttpTlsTest, NothingIsSaidInPlainTextOrToWhoBelievesAnother) {
  Listen(/*asks_clients=*/false);
  HttpClient plain(server_->http_address());
  EXPECT_EQ(plain.Ask("GET", "/healthz").code, 0);
  EXPECT_FALSE(HttpsClient(server_->http_address(), others_.pem()).ready());
}

TEST_F(HttpTlsTest, ClientsNeedACertificateOfTheirAuthority) {
  Listen(/*asks_clients=*/true);
  EXPECT_EQ(ModelsAs(clients_.Issue({.name = "alice"})), 200);

  HttpsClient without(server_->http_address(), servers_.pem());
  ASSERT_TRUE(without.ready());
  const Received unknown = without.Ask("GET", "/v1/models");
  EXPECT_EQ(unknown.code, 401);
  EXPECT_THAT(MessageIn(unknown), HasSubstr("client certificate"));
  // Probes have none.
  EXPECT_EQ(without.Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(without.Ask("GET", "/readyz").code, 200);
  for (const char* path : {"/v1/images/generations", "/sdapi/v1/interrupt", "/hf"}) {
    EXPECT_EQ(without.Ask("POST", path).code, 401) << path;
  }

  HttpsClient wrong(server_->http_address(), servers_.pem(), others_.Issue({.name = "mallory"}));
  const Received refused = wrong.Ask("GET", "/v1/models");
  EXPECT_EQ(refused.code, 403);
  EXPECT_THAT(MessageIn(refused), HasSubstr("CN=mallory"));
  EXPECT_EQ(ModelsAs(clients_.Issue({.name = "alice", .end = absl::UnixEpoch() + absl::Hours(1)})),
            403);
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(HttpTlsTest, ACallerIsTheSameByGrpc) {
  Listen(/*asks_clients=*/true);
  const KeyPair alice = clients_.Issue({.name = "alice"});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(
      server_->address(), grpc::SslCredentials({servers_.pem(), alice.key, alice.certificate}),
      arguments);
  std::thread by_grpc([&] {
    grpc::ClientContext context;
    latent::v1::GenerateResponse response;
    latent::v1::ImageGeneration::NewStub(channel)->Generate(&context, Request(), &response);
  });
  SendPicture("picture", 0);
  by_grpc.join();
  std::thread engine([&] { SendPicture("picture", 1); });
  HttpsClient client(server_->http_address(), servers_.pem(), alice);
  EXPECT_EQ(client.Ask("POST", "/v1/images/generations", R"({"prompt": "a"})").code, 200);
  engine.join();
  EXPECT_EQ(engine_.WaitForSpec(1).caller, engine_.WaitForSpec(0).caller);
  EXPECT_EQ(engine_.WaitForSpec(1).caller, "localhost,127.0.0.1");
}

TEST_F(HttpTlsTest, NewConnectionsSeeANewCertificateAndOldOnesGoOn) {
  Listen(/*asks_clients=*/false);
  HttpsClient old_connection(server_->http_address(), servers_.pem());
  EXPECT_EQ(old_connection.Ask("GET", "/healthz").code, 200);
  const TestAuthority new_authority("new");
  PutPair(new_authority.Issue({.name = "second"}));
  server_->RefreshTls();
  EXPECT_TRUE(HttpsClient(server_->http_address(), new_authority.pem()).ready());
  EXPECT_FALSE(HttpsClient(server_->http_address(), servers_.pem()).ready());
  EXPECT_EQ(old_connection.Ask("GET", "/healthz").code, 200);
}

TEST_F(HttpTlsTest, AnAuthorityThatIsReplacedCountsForOpenConnections) {
  Listen(/*asks_clients=*/true);
  HttpsClient client(server_->http_address(), servers_.pem(), clients_.Issue({.name = "alice"}));
  EXPECT_EQ(client.Ask("GET", "/v1/models").code, 200);
  PutFile(client_ca_, others_.pem());
  server_->RefreshTls();
  EXPECT_EQ(client.Ask("GET", "/v1/models").code, 403);
  EXPECT_EQ(ModelsAs(others_.Issue({.name = "olga"})), 200);
}

}  // namespace
}  // namespace latentd::server::http
