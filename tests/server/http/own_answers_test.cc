// latentd's own paths, by real connections to a server whose engine does what the test says.
#include "server/http/own/own_answers.h"

#include <gmock/gmock.h>

#include <string>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "nlohmann/json.hpp"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"

namespace latentd::server::http {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class OwnAnswersTest : public RunningServer {
 protected:
  void SetUp() override {
    GrpcServer::Options options;
    options.http_listen = "127.0.0.1:0";
    Start(std::move(options));
  }

  Received Get(const std::string& path, const std::string& headers = "") {
    HttpClient client(server_->http_address());
    return client.Ask("GET", path, "", headers);
  }
  json GetJson(const std::string& path) {
    const Received received = Get(path);
    EXPECT_EQ(received.code, 200) << received.body;
    return json::parse(received.body, nullptr, false);
  }
};

TEST_F(OwnAnswersTest, TheStatusIsThatOfAdmin) {
  engine::ServerStatus status;
  status.state = engine::State::kWarming;
  status.graphs_done = 3;
  status.graphs_total = 7;
  status.ready = absl::InfiniteFuture();
  status.buckets = {{"base", {256, 192}, false, "compiles"}};
  engine_.set_status(status);
  const json said = GetJson("/latent/v1/status");
  EXPECT_EQ(said["state"], "SERVER_STATE_WARMING");
  EXPECT_EQ(said["graphs_total"], 7);
  EXPECT_EQ(said["buckets"][0]["size"]["height"], 192);
  EXPECT_EQ(said["buckets"][0]["reason"], "compiles");
  EXPECT_EQ(said["version"], "test");
  EXPECT_FALSE(said.contains("ready"));
}

TEST_F(OwnAnswersTest, CapabilitiesAreThoseOfGrpc) {
  const json said = GetJson("/latent/v1/capabilities");
  EXPECT_EQ(said["models"][0]["component"], "base");
  EXPECT_EQ(said["buckets"][0]["size"]["width"], 256);
  EXPECT_EQ(said["version"], "test");
}

TEST_F(OwnAnswersTest, CapabilitiesWaitForTheModels) {
  engine::ServerStatus status;
  status.state = engine::State::kLoading;
  engine_.set_status(status);
  const Received received = Get("/latent/v1/capabilities");
  EXPECT_EQ(received.code, 503);
  EXPECT_EQ(received.headers.at("retry-after"), "2");
}

TEST_F(OwnAnswersTest, MemoryIsByKindAndWithTheClients) {
  engine_.graphs().report.weight_bytes = int64_t{5} << 32;
  engine_.graphs().report.budget_bytes = int64_t{6} << 32;
  const json said = GetJson("/latent/v1/memory");
  EXPECT_EQ(said["weights_bytes"], "21474836480");
  EXPECT_EQ(said["budget_bytes"], "25769803776");
  EXPECT_EQ(said["clients"][0]["kind"], "received_requests");
}

TEST_F(OwnAnswersTest, GraphsHaveWhatTheyCost) {
  engine::GraphEntry entry;
  entry.id = "abc";
  entry.component = "unet";
  entry.state = engine::GraphState::kReady;
  entry.compile_time = absl::Milliseconds(1500);
  entry.last_use = absl::InfinitePast();
  engine_.graphs().entries = {entry};
  const json said = GetJson("/latent/v1/graphs");
  EXPECT_EQ(said["graphs"][0]["state"], "GRAPH_STATE_READY");
  EXPECT_EQ(said["graphs"][0]["compile_time"], "1.500s");
}

TEST_F(OwnAnswersTest, AListingThatTakesTimeHoldsNoOtherAnswer) {
  absl::Notification listing, go_on;
  absl::once_flag first_listing;
  engine_.graphs().on_read = [&] {
    absl::call_once(first_listing, [&] { listing.Notify(); });
    go_on.WaitForNotification();
  };
  HttpClient first(server_->http_address()), second(server_->http_address());
  first.Send(HttpClient::Format("GET", "/latent/v1/graphs"));
  second.Send(HttpClient::Format("GET", "/latent/v1/graphs"));
  listing.WaitForNotification();
  EXPECT_EQ(Get("/healthz").code, 200);
  go_on.Notify();
  EXPECT_EQ(first.Read().code, 200);
  EXPECT_EQ(second.Read().code, 200);
  EXPECT_EQ(first.Ask("GET", "/healthz").code, 200);
}

TEST_F(OwnAnswersTest, ThePageIsAtTheRoot) {
  const Received page = Get("/");
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<title>latentd</title>"));
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("GET", "/", "",
                                 absl::StrCat("If-None-Match: ", page.headers.at("etag"), "\r\n")));
  const Received same = client.Read(/*has_body=*/false);
  EXPECT_EQ(same.code, 304);
  EXPECT_EQ(same.headers.count("content-length"), 0u);
  EXPECT_EQ(client.Ask("GET", "/page/page.js").code, 200);
  EXPECT_EQ(client.Ask("GET", "/page/none.js").code, 404);
}

TEST_F(OwnAnswersTest, AStreamTellsOwnEventsToWhoAsksForThem) {
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", "/v1/images/generations",
                                 R"({"prompt": "a", "stream": true, "latentd_events": true,)"
                                 R"( "previews": {"every_n_steps": 1}})"));
  engine_.WaitForSpec();
  EXPECT_EQ(client.ReadHead().code, 200);
  engine_.Send(engine::Started{{64, 32}});
  EXPECT_EQ(client.ReadChunk(),
            "event: latentd.started\ndata: {\"executed_size\":{\"width\":64,\"height\":32}}\n\n");
  engine_.Send(engine::Progress{.step = 1, .total_steps = 2});
  EXPECT_THAT(client.ReadChunk(), HasSubstr("event: latentd.progress\ndata: {"));
  engine_.Send(engine::Preview{.step = 1, .total_steps = 2, .size = {8, 4}, .bytes = "abc"});
  const std::string preview = client.ReadChunk();
  EXPECT_THAT(preview, HasSubstr("event: latentd.preview\ndata: {"));
  EXPECT_THAT(preview, HasSubstr("\"data\":\"YWJj\""));
  engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = "abcd"});
  engine_.Send(engine::Completed{});
  EXPECT_THAT(client.ReadChunk(), HasSubstr("event: image_generation.completed\n"));
}

class WithoutPageTest : public OwnAnswersTest {
 protected:
  void SetUp() override {
    GrpcServer::Options options;
    options.http_listen = "127.0.0.1:0";
    options.http_page = false;
    Start(std::move(options));
  }
};

TEST_F(WithoutPageTest, NothingIsAtItsPaths) {
  for (const char* path : {"/", "/page/page.js"}) EXPECT_EQ(Get(path).code, 404) << path;
  EXPECT_EQ(Get("/latent/v1/status").code, 200);
}

TEST(OwnAnswersForOthersTest, MemoryAndGraphsAreForWhoRunsTheServer) {
  FakeEngine engine;
  const OwnAnswers answers(engine, {.version = "test", .for_operators = false});
  EXPECT_EQ(answers.Memory().code, 403);
  EXPECT_EQ(answers.Graphs().code, 403);
  EXPECT_EQ(answers.Status().code, 200);
}

}  // namespace
}  // namespace latentd::server::http
