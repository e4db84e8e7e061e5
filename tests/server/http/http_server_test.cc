// Requests for pictures over HTTP, by real connections to a server whose engine does what the test
// says.
#include "server/http/http_server.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/generation/conversion/field_conversion.h"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kDraw[] = "/v1/images/generations";

class HttpServerTest : public RunningServer {
 protected:
  void SetUp() override { Listen({}); }
  void Listen(GrpcServer::Options options) {
    options.http_listen = "127.0.0.1:0";
    Start(std::move(options));
  }

  Received Ask(const std::string& method, const std::string& path, const std::string& body = "",
               const std::string& headers = "") {
    HttpClient client(server_->http_address());
    return client.Ask(method, path, body, headers);
  }

  static std::string Picture(size_t size) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    return bytes;
  }

  static std::string ErrorCode(const Received& received) {
    const json body = json::parse(received.body, nullptr, false);
    return body.is_discarded() ? received.body : body["error"]["code"].get<std::string>();
  }
};

TEST_F(HttpServerTest, APictureIsThatOfTheEngine) {
  const std::string bytes = Picture(700001);
  std::thread engine([&] { SendPicture(bytes); });
  const Received received = Ask("POST", kDraw, R"({"prompt": "a star", "request_id": "mine"})");
  engine.join();
  ASSERT_EQ(received.code, 200) << received.body;
  const json body = json::parse(received.body);
  std::string decoded;
  ASSERT_TRUE(absl::Base64Unescape(body["data"][0]["b64_json"].get<std::string>(), &decoded));
  EXPECT_EQ(decoded, bytes);
  EXPECT_EQ(body["data"][0]["seed"], 7);
  EXPECT_FALSE(body["data"][0].contains("url"));
  EXPECT_EQ(body["size"], "64x32");
  EXPECT_EQ(body["usage"]["total_tokens"], 0);
  EXPECT_EQ(body["latentd"]["request_id"], "mine");
  EXPECT_EQ(received.headers.at("x-request-id"), "mine");
  EXPECT_EQ(received.headers.at("content-type"), "application/json");
}

TEST_F(HttpServerTest, TheSpecIsThatOfGrpc) {
  v1::GenerateRequest request = Request();
  request.set_width(64);
  request.set_height(32);
  request.set_seed(5);
  request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  std::thread grpc_client([&] {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    stub_->Generate(&context, request, &response);
  });
  SendPicture("picture", 0);
  grpc_client.join();
  std::thread engine([&] { SendPicture("picture", 1); });
  Ask("POST", kDraw, R"({"prompt": "a star", "size": "64x32", "seed": 5})");
  engine.join();
  const engine::GenerateSpec by_grpc = engine_.WaitForSpec(0), by_http = engine_.WaitForSpec(1);
  v1::GenerateRequest fields_by_grpc, fields_by_http;
  generation::SetFields(by_grpc.picture, fields_by_grpc);
  generation::SetFields(by_http.picture, fields_by_http);
  EXPECT_EQ(fields_by_grpc.DebugString(), fields_by_http.DebugString());
  EXPECT_EQ(by_grpc.caller, by_http.caller);
}

TEST_F(HttpServerTest, SeveralPicturesAndUrls) {
  std::thread engine([&] {
    for (int i = 0; i < 2; ++i) {
      engine_.Send(engine::Image{.index = i, .seed = 7u + i, .size = {64, 32}, .bytes = "abc"});
    }
    engine_.Send(engine::Completed{});
  });
  const Received received = Ask("POST", "/v1/images/generations/?api-version=1",
                                R"({"prompt": "a", "n": 2, "model": "dall-e-2"})");
  engine.join();
  const json body = json::parse(received.body);
  ASSERT_EQ(body["data"].size(), 2u);
  EXPECT_EQ(body["data"][1]["url"], "data:image/png;base64,YWJj");
  EXPECT_EQ(body["data"][1]["seed"], 8);
}

TEST_F(HttpServerTest, AConnectionTakesOneRequestAfterTheOther) {
  HttpClient client(server_->http_address());
  for (size_t i = 0; i < 3; ++i) {
    std::thread engine([&] { SendPicture("abc", i); });
    EXPECT_EQ(client.Ask("POST", kDraw, R"({"prompt": "a"})").code, 200);
    engine.join();
    EXPECT_EQ(client.Ask("GET", "/v1/models").code, 200);
  }
}

TEST_F(HttpServerTest, RequestsThatComeTogetherAreAnsweredInTurn) {
  HttpClient client(server_->http_address());
  const std::string draw = HttpClient::Format("POST", kDraw, R"({"prompt": "a"})");
  client.Send(draw + draw + HttpClient::Format("GET", "/healthz"));
  SendPicture("abc", 0);
  EXPECT_EQ(client.Read().code, 200);
  SendPicture("abc", 1);
  EXPECT_EQ(client.Read().code, 200);
  EXPECT_EQ(client.Read().body, "ok\n");
}

TEST_F(HttpServerTest, BadFieldsComeWithTheirNamesAndLimits) {
  const Received received =
      Ask("POST", kDraw, R"({"prompt": "a", "cfg_scale": 31, "size": "9x8"})");
  EXPECT_EQ(received.code, 400);
  const json error = json::parse(received.body)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["code"], "bad_fields");
  EXPECT_EQ(error["param"], "size");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("cfg_scale: at most 30"));
  EXPECT_EQ(error["latentd"]["metadata"]["max_guidance_scale"], "30");
  EXPECT_EQ(received.headers.at("x-request-id").size(), 16u);
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(HttpServerTest, WhenToComeBackIsAHeader) {
  engine_.set_submit_status(WithRetryDelay(
      WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"), absl::Milliseconds(1200)));
  const Received received = Ask("POST", kDraw, R"({"prompt": "a"})");
  EXPECT_EQ(received.code, 429);
  EXPECT_EQ(received.headers.at("retry-after"), "2");
  EXPECT_EQ(received.headers.at("retry-after-ms"), "1200");
  engine_.set_submit_status(absl::InternalError("fault"));
  const Received fault = Ask("POST", kDraw, R"({"prompt": "a"})");
  EXPECT_EQ(fault.code, 500);
  EXPECT_EQ(fault.headers.at("x-should-retry"), "false");
}

TEST_F(HttpServerTest, AFailureOnTheWayIsAStatus) {
  std::thread engine([&] {
    engine_.Send(engine::Started{{64, 32}});
    engine_.Send(engine::Failed{absl::DeadlineExceededError("late")});
  });
  const Received received = Ask("POST", kDraw, R"({"prompt": "a"})", "x-request-timeout: 100\r\n");
  engine.join();
  EXPECT_EQ(received.code, 504);
  EXPECT_NE(engine_.WaitForSpec().deadline, absl::InfiniteFuture());
}

TEST_F(HttpServerTest, AClientThatLeavesStopsItsWork) {
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", kDraw, R"({"prompt": "a"})"));
  engine_.WaitForSpec();
  client.Close();
  engine_.WaitUntilCancelled();
}

TEST_F(HttpServerTest, AStreamTellsPartialsAndPictures) {
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format(
      "POST", kDraw, R"({"prompt": "a", "stream": true, "partial_images": 1, "steps": 4})"));
  EXPECT_EQ(engine_.WaitForSpec().picture.previews_every, 2);
  const Received head = client.ReadHead();
  EXPECT_EQ(head.code, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  engine_.Send(engine::Started{{64, 32}});
  engine_.Send(engine::Preview{.step = 2, .total_steps = 4, .size = {8, 4}, .bytes = "abc"});
  EXPECT_EQ(client.ReadChunk(),
            absl::StrCat("event: image_generation.partial_image\ndata: "
                         R"({"type":"image_generation.partial_image","partial_image_index":0,)"
                         R"("created_at":)",
                         absl::ToUnixSeconds(clock_.Wall()),
                         R"(,"size":"8x4","quality":"auto","background":"opaque",)"
                         R"("output_format":"jpeg","b64_json":"YWJj"})",
                         "\n\n"));
  engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = "abcd"});
  engine_.Send(engine::Completed{});
  std::string rest;
  for (std::string chunk = client.ReadChunk(); !chunk.empty(); chunk = client.ReadChunk())
    rest += chunk;
  EXPECT_THAT(rest, ::testing::StartsWith("event: image_generation.completed\ndata: {"));
  EXPECT_THAT(rest, HasSubstr(R"("b64_json":"YWJjZA=="})"));
  EXPECT_THAT(rest, HasSubstr(R"("latentd":{)"));
  // The connection goes on.
  EXPECT_EQ(client.Ask("GET", "/healthz").code, 200);
}

TEST_F(HttpServerTest, AStreamEndsWithItsError) {
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", kDraw, R"({"prompt": "a", "stream": true})"));
  engine_.WaitForSpec();
  EXPECT_EQ(client.ReadHead().code, 200);
  engine_.Send(engine::Failed{WithReason(absl::UnavailableError("gone"), "DEVICE_FAULT")});
  const std::string event = client.ReadChunk();
  EXPECT_THAT(event, ::testing::StartsWith("event: error\ndata: {\"type\":\"error\",\"error\":"));
  EXPECT_THAT(event, HasSubstr("\"code\":\"device_fault\""));
  EXPECT_EQ(client.ReadChunk(), "");
}

TEST_F(HttpServerTest, ARefusedStreamIsAStatus) {
  EXPECT_EQ(Ask("POST", kDraw, R"({"stream": true})").code, 400);
}

TEST_F(HttpServerTest, PathsMethodsAndTypes) {
  EXPECT_EQ(ErrorCode(Ask("GET", "/nothing")), "no_such_route");
  const Received method = Ask("GET", kDraw);
  EXPECT_EQ(method.code, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  EXPECT_EQ(Ask("HEAD", "/v1/models").code, 200);
  EXPECT_EQ(Ask("HEAD", "/v1/models").body, "");
  EXPECT_EQ(Ask("POST", kDraw, "{}", "Content-Encoding: gzip\r\n").code, 415);
  EXPECT_EQ(ErrorCode(Ask("POST", kDraw, "no json")), "malformed");
  const json models = json::parse(Ask("GET", "/models").body);
  EXPECT_EQ(models["data"][0]["id"], "base");
  EXPECT_EQ(Ask("GET", "/v1/models/base").code, 200);
  EXPECT_EQ(Ask("GET", "/v1/models/%62ase/").code, 200);
  EXPECT_EQ(Ask("GET", "/v3/models/other").code, 404);
}

TEST_F(HttpServerTest, BytesThatAreNoRequest) {
  HttpClient client(server_->http_address());
  client.Send("\x16\x03\x01 no HTTP\r\n\r\n");
  EXPECT_EQ(client.Read().code, 400);
  EXPECT_TRUE(client.IsClosed());
  HttpClient large(server_->http_address());
  large.Send("GET / HTTP/1.1\r\nx: " + std::string(40 << 10, 'x') + "\r\n\r\n");
  EXPECT_EQ(large.Read().code, 431);
}

TEST_F(HttpServerTest, ABodyIsRefusedBeforeItIsRead) {
  server_.reset();
  Listen({.max_request_bytes = 4096});
  HttpClient client(server_->http_address());
  client.Send(absl::StrCat("POST ", kDraw,
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"));
  EXPECT_EQ(client.Read().code, 413);
  HttpClient small(server_->http_address());
  small.Send(
      "POST /sdapi/v1/options HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n");
  EXPECT_EQ(small.Read().code, 413);
}

TEST_F(HttpServerTest, AClientThatAsksFirstIsToldToGoOn) {
  HttpClient client(server_->http_address());
  const std::string body = R"({"prompt": "a"})";
  client.Send(absl::StrCat("POST ", kDraw,
                           " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n",
                           "Content-Length: ", body.size(), "\r\n\r\n"));
  EXPECT_EQ(client.ReadHead().code, 100);
  client.Send(body);
  SendPicture("abc");
  EXPECT_EQ(client.Read().code, 200);
}

TEST_F(HttpServerTest, AClientOfHttp10IsToldNothingButTheAnswer) {
  HttpClient client(server_->http_address());
  client.Send(absl::StrCat("POST ", kDraw, " HTTP/1.0\r\nExpect: 100-continue\r\n",
                           "Content-Length: 2\r\n\r\n{}"));
  EXPECT_EQ(client.Read().code, 400);
}

TEST_F(HttpServerTest, EmptyLinesBeforeARequestAreLeftOut) {
  HttpClient client(server_->http_address());
  const std::string ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.Send("\r\n\r\n" + ask + "\r");
  EXPECT_EQ(client.Read().code, 200);
  client.Send("\n" + ask + "\r\n" + ask);
  EXPECT_EQ(client.Read().code, 200);
  EXPECT_EQ(client.Read().code, 200);
  client.Send("\r" + ask);
  EXPECT_EQ(client.Read().code, 400);
}

TEST_F(HttpServerTest, AnEmptyLineBehindABodyHidesNoClientThatLeaves) {
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", kDraw, R"({"prompt": "a"})") + "\r\n");
  engine_.WaitForSpec();
  client.Close();
  engine_.WaitUntilCancelled();
}

TEST_F(HttpServerTest, BodiesInChunksAndHttp10) {
  HttpClient client(server_->http_address());
  client.Send(absl::StrCat("POST ", kDraw, " HTTP/1.0\r\nContent-Length: 15\r\n\r\n",
                           R"({"prompt": "a"})"));
  SendPicture("abc", 0);
  EXPECT_EQ(client.Read().code, 200);
  EXPECT_TRUE(client.IsClosed());
  HttpClient chunked(server_->http_address());
  chunked.Send(absl::StrCat("POST ", kDraw,
                            " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                            "a\r\n{\"prompt\":\r\n4\r\n\"a\"}\r\n0\r\n\r\n"));
  SendPicture("abc", 1);
  EXPECT_EQ(chunked.Read().code, 200);
}

TEST_F(HttpServerTest, PagesOfOtherSitesMayNotAsk) {
  EXPECT_EQ(Ask("POST", kDraw, "{}", "Origin: https://evil.example\r\n").code, 403);
  EXPECT_EQ(Ask("POST", kDraw, "{}", "Sec-Fetch-Site: cross-site\r\n").code, 403);
  EXPECT_EQ(Ask("POST", kDraw, "{}", "Origin: http://localhost\r\n").code, 400);
  HttpClient client(server_->http_address());
  client.Send("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.Read().code, 421);
}

TEST_F(HttpServerTest, PagesOfAllowedOriginsMay) {
  server_.reset();
  Listen({.http_cors_origins = {"https://app.example"}});
  const std::string origin = "Origin: https://app.example\r\n";
  HttpClient client(server_->http_address());
  client.Send(
      HttpClient::Format("OPTIONS", kDraw, "", origin + "Access-Control-Request-Method: POST\r\n"));
  const Received preflight = client.ReadHead();
  EXPECT_EQ(preflight.code, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(preflight.headers.count("access-control-allow-credentials"), 0u);
  EXPECT_EQ(preflight.headers.count("content-length"), 0u);
  std::thread engine([&] { SendPicture("abc"); });
  const Received drawn =
      client.Ask("POST", kDraw, R"({"prompt": "a"})", origin + "Sec-Fetch-Site: cross-site\r\n");
  engine.join();
  EXPECT_EQ(drawn.code, 200);
  EXPECT_EQ(drawn.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(drawn.headers.at("vary"), "Origin");
  // Errors may be read, too.
  EXPECT_EQ(client.Ask("POST", kDraw, "{}", origin).headers.count("access-control-allow-origin"),
            1u);
  EXPECT_EQ(client.Ask("GET", "/v1/models").headers.count("access-control-allow-origin"), 0u);
  EXPECT_EQ(client.Ask("POST", kDraw, "{}", "Origin: https://evil.example\r\n").code, 403);
  // A body that was not read ends the connection.
  HttpClient other(server_->http_address());
  EXPECT_EQ(other
                .Ask("OPTIONS", kDraw, "",
                     "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n")
                .code,
            405);
}

TEST_F(HttpServerTest, ProbesFollowTheEngine) {
  EXPECT_EQ(Ask("GET", "/readyz").code, 200);
  engine_.set_state(engine::State::kLoading);
  EXPECT_EQ(Ask("GET", "/healthz").code, 200);
  EXPECT_EQ(Ask("GET", "/readyz").code, 503);
  EXPECT_EQ(Ask("GET", "/v1/models").code, 503);
  const Received draw = Ask("POST", kDraw, R"({"prompt": "a"})");
  EXPECT_EQ(draw.code, 503);
  EXPECT_EQ(ErrorCode(draw), "loading");
  EXPECT_EQ(draw.headers.at("retry-after"), "2");
}

TEST_F(HttpServerTest, ADrainEndsWhatRuns) {
  HttpClient idle(server_->http_address());
  EXPECT_EQ(idle.Ask("GET", "/healthz").code, 200);
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", kDraw, R"({"prompt": "a"})"));
  engine_.WaitForSpec();
  server_->Drain(absl::Seconds(10));
  EXPECT_EQ(client.Read().code, 503);
  EXPECT_TRUE(idle.IsClosed());
}

TEST_F(HttpServerTest, ADrainIsToldToWhoAsksMeanwhile) {
  HttpClient fresh(server_->http_address());  // it has asked nothing yet
  engine_.OnDrain([&] {
    EXPECT_EQ(fresh.Ask("GET", "/healthz").code, 200);
    EXPECT_TRUE(fresh.IsClosed());
    EXPECT_EQ(Ask("GET", "/healthz").code, 200);
    const Received ready = Ask("GET", "/readyz");
    EXPECT_EQ(ready.code, 503);
    EXPECT_EQ(ready.body, "draining\n");
    const Received draw = Ask("POST", kDraw, R"({"prompt": "a"})");
    EXPECT_EQ(draw.code, 503);
    EXPECT_EQ(ErrorCode(draw), "draining");
    EXPECT_EQ(draw.headers.count("retry-after"), 1u);
  });
  server_->Drain(absl::Seconds(10));
  EXPECT_FALSE(HttpClient(server_->http_address()).connected());
}

TEST_F(HttpServerTest, WhatIsNotSaidClearlyIsRefusedByName) {
  EXPECT_EQ(json::parse(Ask("POST", kDraw, R"({"prompt": "a"})", "x-request-timeout: abc\r\n")
                            .body)["error"]["param"],
            "x-request-timeout");
  HttpClient twice(server_->http_address());
  const Received hosts = twice.Ask("GET", "/healthz", "", "Host: localhost\r\n");
  EXPECT_EQ(hosts.code, 400);
  EXPECT_THAT(hosts.body, HasSubstr("Host"));
  EXPECT_TRUE(twice.IsClosed());
  HttpClient coded(server_->http_address());
  coded.Send(absl::StrCat(
      "POST ", kDraw, " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
      "a\r\n{\"prompt\":\r\n4\r\n\"a\"}\r\n0\r\n\r\n"));
  const Received coding = coded.Read();
  EXPECT_EQ(coding.code, 400);
  EXPECT_THAT(coding.body, HasSubstr("Transfer-Encoding"));
  EXPECT_TRUE(coded.IsClosed());
  EXPECT_EQ(engine_.job_count(), 0u);
}

TEST_F(HttpServerTest, TheWebUisWayToDraw) {
  std::thread engine([&] { SendPicture("abc"); });
  const Received received = Ask(
      "POST", "/sdapi/v1/txt2img",
      R"json({"prompt": "(a star:1.2)", "steps": "7", "cfg_scale": 4.5, "width": 64, "height": 32,
              "seed": -1, "sampler_name": "Euler a", "scheduler": "Karras", "batch_size": 1,
              "n_iter": 2, "eta": 1.0, "enable_hr": false, "hr_scale": "2", "clip_skip": 2,
              "alwayson_scripts": {}, "styles": [], "x": 1, "override_settings":
              {"CLIP_stop_at_last_layers": 1, "sd_vae": "Automatic"}})json");
  engine.join();
  ASSERT_EQ(received.code, 200) << received.body;
  const pipeline::PictureSpec spec = engine_.WaitForSpec().picture;
  EXPECT_EQ(spec.num_inference_steps, 7);
  EXPECT_EQ(spec.scheduler.name, "Euler a + Karras");
  EXPECT_EQ(spec.num_images_per_prompt, 2);
  EXPECT_EQ(spec.prompt_syntax, prompts::Syntax::kA1111);
  EXPECT_EQ(spec.clip_skip_a1111, 2);
  EXPECT_FALSE(spec.eta.has_value());
  EXPECT_FALSE(spec.seed.has_value());
  const json body = json::parse(received.body);
  EXPECT_EQ(body["images"], json::array({"YWJj"}));
  EXPECT_EQ(body["parameters"]["steps"], "7");
  const json info = json::parse(body["info"].get<std::string>());
  EXPECT_EQ(info["seed"], 7);
  EXPECT_EQ(info["width"], 64);
  EXPECT_EQ(info["warnings"], json::array({"x was not read"}));
}

TEST_F(HttpServerTest, TheWebUisEffectsThatAreNotHereAreRefusedByName) {
  for (const char* field :
       {"\"tiling\": true", "\"restore_faces\": true", "\"enable_hr\": true",
        "\"subseed_strength\": 0.5", "\"script_name\": \"x\"", "\"alwayson_scripts\": {\"a\": {}}",
        "\"styles\": [\"a\"]", "\"override_settings\": {\"sd_vae\": \"x\"}"}) {
    const Received received =
        Ask("POST", "/sdapi/v1/txt2img", absl::StrCat(R"({"prompt": "a", )", field, "}"));
    EXPECT_EQ(received.code, 422) << field;
    const std::string key = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(json::parse(received.body)["detail"].get<std::string>(), HasSubstr(key)) << field;
  }
  EXPECT_EQ(Ask("POST", "/sdapi/v1/txt2img",
                R"({"prompt": "a", "override_settings": {"sd_model_checkpoint": "other"}})")
                .code,
            404);
}

TEST_F(HttpServerTest, TheWebUisListsAndProgress) {
  for (const char* path :
       {"options", "sd-models", "samplers", "schedulers", "progress", "upscalers",
        "latent-upscale-modes", "sd-vae", "loras", "scripts", "embeddings"}) {
    const Received received = Ask("GET", absl::StrCat("/sdapi/v1/", path));
    EXPECT_EQ(received.code, 200) << path;
    EXPECT_FALSE(json::parse(received.body, nullptr, false).is_discarded()) << path;
  }
  EXPECT_EQ(json::parse(Ask("GET", "/sdapi/v1/options").body)["sd_model_checkpoint"], "base");
  EXPECT_EQ(Ask("POST", "/sdapi/v1/options", R"({"sd_model_checkpoint": "base", "x": 1})").body,
            "null");
  EXPECT_EQ(Ask("POST", "/sdapi/v1/options", R"({"sd_model_checkpoint": "other"})").code, 404);
  EXPECT_THAT(Ask("POST", "/sdapi/v1/options", R"({"CLIP_stop_at_last_layers": 2})").body,
              HasSubstr("override_settings"));
  HttpClient client(server_->http_address());
  client.Send(HttpClient::Format("POST", "/sdapi/v1/txt2img", R"({"prompt": "a"})"));
  engine_.WaitForSpec();
  EXPECT_EQ(json::parse(Ask("GET", "/sdapi/v1/progress").body)["state"]["job_count"], 1);
  EXPECT_EQ(Ask("POST", "/sdapi/v1/interrupt").code, 200);
  engine_.WaitUntilCancelled();
  EXPECT_EQ(client.Read().code, 503);
}

TEST_F(HttpServerTest, HuggingFacesWay) {
  std::thread engine([&] { SendPicture("abc"); });
  const Received received =
      Ask("POST", "/hf",
          R"({"inputs": "a star", "parameters": {"width": 64, "height": 32, "seed": null}})",
          "Accept: image/png\r\n");
  engine.join();
  EXPECT_EQ(received.code, 200);
  EXPECT_EQ(received.body, "abc");
  EXPECT_EQ(received.headers.at("content-type"), "image/png");
  const Received bad = Ask("POST", "/hf", R"({"inputs": "a", "parameters": {"what": 1}})");
  EXPECT_EQ(bad.code, 400);
  EXPECT_THAT(json::parse(bad.body)["error"].get<std::string>(), HasSubstr("what"));
}

}  // namespace
}  // namespace latentd::server::http
