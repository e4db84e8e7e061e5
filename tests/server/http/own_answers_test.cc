// latentd's own paths, by real connections to a server whose engine does what the test says.
#include "server/http/own/own_answers.h"

#include <gmock/gmock.h>

#include <atomic>
#include <string>

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
  void SetUp() override {}

  // REQUIRES: the engine has all that tests give it without a lock.
  void Serve() {
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
  Serve();
  engine::ServerStatus status;
  status.state = engine::State::kWarming;
  status.graphs_done = 3;
  status.graphs_total = 7;
  status.reason = "one graph is left";
  status.ready = absl::InfiniteFuture();
  status.buckets = {{"base", {256, 192}, false, "compiles"}};
  engine_.set_status(status);
  const json said = GetJson("/latent/v1/status");
  EXPECT_EQ(said["state"], "SERVER_STATE_WARMING");
  EXPECT_EQ(said["reason"], "one graph is left");
  EXPECT_EQ(said["graphs_total"], 7);
  EXPECT_EQ(said["buckets"][0]["size"]["height"], 192);
  EXPECT_EQ(said["buckets"][0]["reason"], "compiles");
  EXPECT_EQ(said["version"], "test");
  EXPECT_FALSE(said.contains("ready"));
}

TEST_F(OwnAnswersTest, CapabilitiesAreThoseOfGrpc) {
  Serve();
  const json said = GetJson("/latent/v1/capabilities");
  EXPECT_EQ(said["models"][0]["component"], "base");
  EXPECT_EQ(said["buckets"][0]["size"]["width"], 256);
  EXPECT_EQ(said["version"], "test");
}

TEST_F(OwnAnswersTest, CapabilitiesWaitForTheModels) {
  Serve();
  engine::ServerStatus status;
  status.state = engine::State::kLoading;
  engine_.set_status(status);
  const Received received = Get("/latent/v1/capabilities");
  EXPECT_EQ(received.code, 503);
  EXPECT_EQ(received.headers.at("retry-after"), "2");
}

TEST_F(OwnAnswersTest, MemoryIsByKindAndWithTheClients) {
  engine_.report().weight_bytes = int64_t{5} << 32;
  engine_.report().budget_bytes = int64_t{6} << 32;
  Serve();
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
  Serve();
  const json said = GetJson("/latent/v1/graphs");
  EXPECT_EQ(said["graphs"][0]["state"], "GRAPH_STATE_READY");
  EXPECT_EQ(said["graphs"][0]["compile_time"], "1.500s");
}

// Answers that may wait for a disk, by their paths; here they wait for the test.
class ListingTest : public OwnAnswersTest, public ::testing::WithParamInterface<const char*> {
 protected:
  ListingTest() {
    engine_.graphs().on_read = [this] {
      if (++listings_ == 1) listing_.Notify();
      go_on_.WaitForNotification();
    };
    engine_.graphs().entries = {{.id = "abc"}};
    engine_.report().budget_bytes = 5;
    Serve();
  }
  // Nothing waits for the test any more.
  ~ListingTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    server_.reset();
  }

  static std::string Request() { return HttpClient::Format("GET", GetParam()); }
  // A body that is read by a thread of its own kind, too.
  Received AskWithLargeBody() {
    HttpClient client(server_->http_address());
    return client.Ask("POST", "/v1/images/generations",
                      absl::StrCat(R"({"nonsense": ")", std::string(300 << 10, 'x'), R"("})"));
  }

  std::atomic<int> listings_ = 0;
  absl::Notification listing_, go_on_;
};

// As many of them as there are threads for connections, and for bodies.
TEST_P(ListingTest, HoldsNoOtherAnswer) {
  HttpClient first(server_->http_address()), second(server_->http_address());
  first.Send(Request());
  listing_.WaitForNotification();
  second.Send(Request());
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(AskWithLargeBody().code, 400);
  EXPECT_EQ(listings_, 1);  // one at a time
  go_on_.Notify();
  for (HttpClient* client : {&first, &second}) {
    const json said = json::parse(client->Read().body, nullptr, false);
    EXPECT_TRUE(said.contains("graphs") || said.value("budget_bytes", "") == "5") << said;
  }
  EXPECT_EQ(listings_, 2);
  EXPECT_EQ(first.Ask("GET", "/healthz").code, 200);
}

TEST_P(ListingTest, MayBeLeft) {
  HttpClient client(server_->http_address());
  client.Send(Request());
  listing_.WaitForNotification();
  client.Close();
  go_on_.Notify();
  EXPECT_EQ(Get(GetParam()).code, 200);  // it comes behind that one
  EXPECT_EQ(listings_, 2);
}

INSTANTIATE_TEST_SUITE_P(All, ListingTest,
                         ::testing::Values("/latent/v1/graphs", "/latent/v1/memory"));

TEST_F(OwnAnswersTest, ThePageIsAtTheRoot) {
  Serve();
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
  Serve();
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

// A server that asks for nothing, and that others than those who run it can reach.
class StrangersTest : public OwnAnswersTest {
 protected:
  void SetUp() override {
    GrpcServer::Options options;
    options.http_listen = "127.0.0.1:0";
    options.http_cors_origins = {"https://app.example"};
    Start(std::move(options));
  }
};

TEST_F(StrangersTest, MemoryAndGraphsAreForWhoRunsTheServer) {
  for (const char* path : {"/latent/v1/memory", "/latent/v1/graphs"}) {
    const Received refused = Get(path);
    EXPECT_EQ(refused.code, 403) << path;
    EXPECT_THAT(refused.body, HasSubstr("for operators")) << path;
  }
}

TEST_F(StrangersTest, TheStatusGivesNoReasons) {
  engine::ServerStatus status;
  status.state = engine::State::kDegraded;
  status.reason = "/models/base has changed";
  status.buckets = {{"base", {256, 192}, true, ""}, {"base", {512, 512}, false, "of the driver"}};
  status.devices = {{"device 0", "", engine::State::kReady, ""},
                    {"device 1", "an illegal address", engine::State::kFailed, "the driver's"}};
  engine_.set_status(status);
  const json said = GetJson("/latent/v1/status");
  EXPECT_EQ(said["state"], "SERVER_STATE_DEGRADED");
  EXPECT_FALSE(said.contains("reason")) << said;
  ASSERT_EQ(said["buckets"].size(), 2u);
  EXPECT_EQ(said["buckets"][0]["ready"], true);
  EXPECT_EQ(said["buckets"][1]["size"]["width"], 512);
  EXPECT_FALSE(said["buckets"][1].contains("reason")) << said;
  ASSERT_EQ(said["devices"].size(), 2u);
  EXPECT_EQ(said["devices"][1]["state"], "SERVER_STATE_FAILED");
  for (const char* told : {"reason", "fault"}) {
    EXPECT_FALSE(said["devices"][1].contains(told)) << said;
  }
}

}  // namespace
}  // namespace latentd::server::http
