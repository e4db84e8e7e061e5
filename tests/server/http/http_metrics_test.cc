// Metrics of the HTTP port, by real connections.
#include "server/http/http_metrics.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/process/ports/connection_limit.h"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"

namespace latentd::server::http {
namespace {

constexpr char kDrawPath[] = "/v1/images/generations";

// One that counts the bytes of both sides.
class CountedClient final : public HttpClient {
 public:
  using HttpClient::HttpClient;

  size_t sent = 0, received = 0;

 private:
  ssize_t SendSome(const char* bytes, size_t size) override {
    const ssize_t now = HttpClient::SendSome(bytes, size);
    if (now > 0) sent += static_cast<size_t>(now);
    return now;
  }
  ssize_t ReceiveSome(char* bytes, size_t size) override {
    const ssize_t now = HttpClient::ReceiveSome(bytes, size);
    if (now > 0) received += static_cast<size_t>(now);
    return now;
  }
};

class HttpMetricsTest : public RunningServer {
 protected:
  void SetUp() override { Start({.http_listen = "127.0.0.1:0"}); }

  double Counter(const metrics::Family& family, const metrics::LabelValues& labels = {}) {
    return engine_.metrics().GetCounter(family, labels).Value();
  }
  double Responses(const char* api, const char* code) {
    return Counter(metrics::kHttpResponses, {api, code});
  }
  double OpenConnections() { return engine_.metrics().GetGauge(metrics::kHttpConnections).Value(); }
};

TEST_F(HttpMetricsTest, ConnectionsAreOpenUntilTheyAreClosed) {
  auto first = std::make_unique<HttpClient>(server_->http_address());
  HttpClient second(server_->http_address());
  EXPECT_EQ(first->Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(second.Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(first->Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(OpenConnections(), 2);
  EXPECT_EQ(Counter(metrics::kHttpConnectionsAccepted), 2);
  // The server says that the connection ends, and is closed itself.
  EXPECT_EQ(first->Ask("GET", "/healthz", "", "Connection: close\r\n").code, 200);
  EXPECT_TRUE(first->IsClosed());
  first.reset();
  server_.reset();
  EXPECT_EQ(OpenConnections(), 0);
  EXPECT_EQ(Counter(metrics::kHttpConnectionsAccepted), 2);
}

// A body comes in pieces of its own, and an answer of a picture goes in several.
TEST_F(HttpMetricsTest, BytesAreThoseOfBothSides) {
  CountedClient client(server_->http_address());
  std::thread engine([&] { SendPicture(std::string(700001, 'p')); });
  client.Send(
      HttpClient::Format("POST", kDrawPath, R"({"prompt": "a"})", "Expect: 100-continue\r\n"));
  EXPECT_EQ(client.ReadHead().code, 100);
  EXPECT_EQ(client.Read().code, 200);
  engine.join();
  EXPECT_EQ(client.Ask("GET", "/v1/models").code, 200);
  EXPECT_EQ(client.Ask("GET", "/nothing").code, 404);
  client.Close();
  server_.reset();
  EXPECT_EQ(Counter(metrics::kHttpBytes, {"received"}), client.sent);
  EXPECT_EQ(Counter(metrics::kHttpBytes, {"sent"}), client.received);
}

TEST_F(HttpMetricsTest, ResponsesAreCountedByApiAndClass) {
  HttpClient client(server_->http_address());
  for (const char* path : {"/healthz", "/readyz", "/v2/health/live"}) client.Ask("GET", path);
  for (const char* path : {"/v1/models", "/models", "/sdapi/v1/options"}) client.Ask("GET", path);
  for (const char* path : {kDrawPath, "/v3/images/edits", "/sdapi/v1/txt2img", "/hf"}) {
    EXPECT_LT(client.Ask("POST", path, "{}").code, 500) << path;
  }
  client.Ask("GET", "/v1/nothing");
  client.Ask("GET", "/latent/v1/status");
  const std::string tag = client.Ask("GET", "/").headers.at("etag");
  client.Send(HttpClient::Format("GET", "/", "", absl::StrCat("If-None-Match: ", tag, "\r\n")));
  EXPECT_EQ(client.Read(/*has_body=*/false).code, 304);
  EXPECT_EQ(Responses("probes", "2xx") + Responses("probes", "5xx"), 3);
  EXPECT_EQ(Responses("openai", "2xx"), 2);
  EXPECT_EQ(Responses("openai", "4xx"), 2);
  EXPECT_EQ(Responses("sdapi", "2xx"), 1);
  EXPECT_EQ(Responses("sdapi", "4xx"), 1);
  EXPECT_EQ(Responses("hf", "4xx"), 1);
  EXPECT_EQ(Responses("latentd", "2xx"), 1);
  EXPECT_EQ(Responses("page", "2xx"), 1);
  EXPECT_EQ(Responses("page", "3xx"), 1);
  EXPECT_EQ(Responses("other", "4xx"), 1);
}

TEST_F(HttpMetricsTest, AResponseCountsOnceHoweverManyPiecesItHas) {
  HttpClient client(server_->http_address());
  std::thread engine([&] { SendPicture(std::string(700001, 'p')); });
  EXPECT_EQ(client.Ask("POST", kDrawPath, R"({"prompt": "a", "stream": true})").code, 200);
  engine.join();
  engine_.set_submit_status(absl::InternalError("fault"));
  EXPECT_EQ(client.Ask("POST", kDrawPath, R"({"prompt": "a"})").code, 500);
  EXPECT_EQ(Responses("openai", "2xx"), 1);
  EXPECT_EQ(Responses("openai", "5xx"), 1);
}

// And not as the one before it on the same connection.
TEST_F(HttpMetricsTest, WhatIsNoRequestIsOfNoApi) {
  HttpClient client(server_->http_address());
  EXPECT_EQ(client.Ask("GET", "/healthz").code, 200);
  client.Send("\x16\x03\x01 no HTTP\r\n\r\n");
  EXPECT_EQ(client.Read().code, 400);
  EXPECT_EQ(Responses("other", "4xx"), 1);
  EXPECT_EQ(Responses("probes", "4xx"), 0);
}

TEST_F(HttpMetricsTest, ConnectionsBeyondTheLimitAreCounted) {
  constexpr int kPlenty = 4096;
  ASSERT_OK(process::LimitConnections(1));
  std::vector<std::unique_ptr<HttpClient>> clients;
  do {
    clients.push_back(std::make_unique<HttpClient>(server_->http_address()));
  } while (clients.back()->Ask("GET", "/healthz").code == 200);
  EXPECT_EQ(Counter(metrics::kHttpConnectionsAccepted), clients.size() - 1);
  EXPECT_EQ(OpenConnections(), clients.size() - 1);
  server_.reset();  // it has counted then what it refused, which the client may see before
  EXPECT_EQ(Counter(metrics::kHttpConnectionsRefused, {"limit"}), 1);
  ASSERT_OK(process::LimitConnections(kPlenty));
}

}  // namespace
}  // namespace latentd::server::http
