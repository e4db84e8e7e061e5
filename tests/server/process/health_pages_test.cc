// /healthz and /readyz of a real server, beside what its gRPC health says.
#include "server/process/ports/health_pages.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "server/process/ports/metrics_endpoint.h"
#include "tests/server/running_server.h"
#include "tests/server/scrape.h"

namespace latentd::server::process {
namespace {

using ::latentd::testing::HttpAsk;
using ::latentd::testing::TcpConnection;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Ask(const MetricsEndpoint& endpoint, const std::string& method,
                const std::string& path) {
  TcpConnection connection(endpoint.address());
  return HttpAsk(connection, method, path);
}

// One endpoint for all: ending it takes up to two seconds.
class HealthPagesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = std::make_unique<FakeEngine>();
    health_ = std::make_unique<Health>([] { return engine::Hangs(); });
    ASSERT_OK_AND_ASSIGN(endpoint_, MetricsEndpoint::Start("127.0.0.1:0", *engine_, *health_));
  }
  static void TearDownTestSuite() {
    endpoint_.reset();
    health_.reset();
    engine_.reset();
  }
  void SetUp() override { health_->Follow(engine::ServerStatus{.state = engine::State::kReady}); }

  static std::string Ask(const std::string& method, const std::string& path) {
    return process::Ask(*endpoint_, method, path);
  }

  static inline std::unique_ptr<FakeEngine> engine_;
  static inline std::unique_ptr<Health> health_;
  static inline std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(HealthPagesTest, SayOkOrWhyNotInOneLine) {
  EXPECT_THAT(Ask("GET", "/healthz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Ask("GET", "/readyz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nok\n")));
  health_->Follow(
      engine::ServerStatus{.state = engine::State::kFailed, .reason = "no model\nin it"});
  EXPECT_THAT(Ask("GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nfailed: no model in it\n")));
}

TEST_F(HealthPagesTest, TheLineIsUtf8) {
  health_->Follow(engine::ServerStatus{.state = engine::State::kFailed, .reason = "no caf\xE9"});
  EXPECT_THAT(Ask("GET", "/readyz"), EndsWith("\r\n\r\nfailed: no caf\\xe9\n"));
}

TEST_F(HealthPagesTest, HeadIsTheSameWithoutTheLine) {
  for (const char* path : {"/healthz", "/readyz"}) {
    EXPECT_THAT(Ask("HEAD", path), AllOf(StartsWith("HTTP/1.1 200 "),
                                         HasSubstr("Content-Length: 3\r\n"), EndsWith("\r\n\r\n")));
  }
  health_->Follow(engine::ServerStatus{.state = engine::State::kLoading});
  EXPECT_THAT(Ask("HEAD", "/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\n")));
}

TEST_F(HealthPagesTest, OtherMethodsAreNotAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    EXPECT_THAT(Ask(method, "/healthz"),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n")))
        << method;
    EXPECT_THAT(Ask(method, "/readyz"), StartsWith("HTTP/1.1 405 ")) << method;
  }
}

TEST_F(HealthPagesTest, OtherPathsAreNotThere) {
  for (const char* path : {"/healthz/", "/readyz/x", "/health", "/readyzz", "/"}) {
    EXPECT_THAT(Ask("GET", path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

class HealthOfAServerTest : public RunningServer {
 protected:
  // The answer of the page and of gRPC's service, which must agree.
  bool Says(const std::string& page, const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(health_->Check(&context, request, &response).ok());
    const bool serving = response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
    EXPECT_THAT(Ask(*endpoint_, "GET", page),
                StartsWith(serving ? "HTTP/1.1 200 " : "HTTP/1.1 503 "));
    return serving;
  }
  bool Ready() { return Says("/readyz", "latent.v1.ImageGeneration"); }
  bool Alive() { return Says("/healthz", "liveness"); }

  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(HealthOfAServerTest, IsTheSameOverHttpAndGrpc) {
  ASSERT_OK_AND_ASSIGN(endpoint_,
                       MetricsEndpoint::Start("127.0.0.1:0", engine_, server_->health()));
  engine_.set_state(engine::State::kLoading);
  EXPECT_FALSE(Ready());
  EXPECT_TRUE(Alive());
  engine_.set_state(engine::State::kReady);
  EXPECT_TRUE(Ready());
  engine_.set_hangs(
      {.unit = engine::OverdueUnit{.running = absl::Seconds(95), .limit = absl::Seconds(60)}});
  EXPECT_TRUE(Ready());
  EXPECT_FALSE(Alive());
  engine_.set_hangs({});
  EXPECT_TRUE(Alive());
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(Ask(*endpoint_, "GET", "/readyz"), EndsWith("\r\n\r\ndraining\n"));
  EXPECT_THAT(Ask(*endpoint_, "GET", "/healthz"), EndsWith("\r\n\r\nok\n"));
}

}  // namespace
}  // namespace latentd::server::process
