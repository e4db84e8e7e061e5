// Progress and interruption of the web UI's clients, which are of the caller's own requests.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"

namespace latentd::server::http {
namespace {

using nlohmann::json;

constexpr char kOneHost[] = "127.0.0.1", kOtherHost[] = "127.0.0.2";
constexpr char kTxt2Img[] = "/sdapi/v1/txt2img";

class SdapiServerTest : public RunningServer {
 protected:
  void SetUp() override { Start({.http_listen = "127.0.0.1:0"}); }

  json ProgressOf(const char* host) const {
    HttpClient client(server_->http_address(), host);
    return json::parse(client.Ask("GET", "/sdapi/v1/progress").body, nullptr, false);
  }
};

// The oldest is a stream, which tells its client where it is: the server knows it by then.
TEST_F(SdapiServerTest, ProgressIsOfTheCallersOldestRequest) {
  HttpClient first(server_->http_address(), kOneHost), second(server_->http_address(), kOneHost);
  first.Send(
      HttpClient::Format("POST", "/v1/images/generations",
                         R"({"prompt": "a", "n": 2, "stream": true, "latentd_events": true})"));
  engine_.WaitForSpec(0);
  second.Send(HttpClient::Format("POST", kTxt2Img, R"({"prompt": "b"})"));
  engine_.WaitForSpec(1);
  engine_.Send(engine::Started{{64, 32}}, 0);
  engine_.Send(engine::Progress{.image_index = 1, .step = 3, .total_steps = 4}, 0);
  EXPECT_EQ(first.ReadHead().code, 200);
  std::string told;
  do {
    told = first.ReadChunk();
  } while (!told.empty() && !absl::StrContains(told, "latentd.progress"));
  const json progress = ProgressOf(kOneHost);
  EXPECT_EQ(progress["progress"], 0.75);
  EXPECT_EQ(progress["state"]["sampling_steps"], 4);
  EXPECT_EQ(progress["state"]["job_no"], 1);
  EXPECT_EQ(progress["state"]["job_count"], 2);
  EXPECT_EQ(ProgressOf(kOtherHost)["state"]["job_count"], 0);
  EXPECT_EQ(ProgressOf(kOtherHost)["progress"], 0);
}

TEST_F(SdapiServerTest, ACallerInterruptsItsOwnAlone) {
  HttpClient own(server_->http_address(), kOneHost), other(server_->http_address(), kOtherHost);
  own.Send(HttpClient::Format("POST", kTxt2Img, R"({"prompt": "a"})"));
  engine_.WaitForSpec(0);
  other.Send(HttpClient::Format("POST", kTxt2Img, R"({"prompt": "b"})"));
  engine_.WaitForSpec(1);
  const Received answer =
      HttpClient(server_->http_address(), kOneHost).Ask("POST", "/sdapi/v1/interrupt");
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body, "{}");
  engine_.WaitUntilCancelled(0);
  EXPECT_EQ(own.Read().code, 503);
  // The other's request goes on to its end.
  SendPicture("abc", 1);
  EXPECT_EQ(other.Read().code, 200);
}

TEST_F(SdapiServerTest, SkippingIsInterruptingAndNeedsNoRequest) {
  HttpClient idle(server_->http_address(), kOneHost);
  EXPECT_EQ(idle.Ask("POST", "/sdapi/v1/interrupt").code, 200);
  HttpClient client(server_->http_address(), kOneHost);
  client.Send(HttpClient::Format("POST", kTxt2Img, R"({"prompt": "a"})"));
  engine_.WaitForSpec();
  EXPECT_EQ(idle.Ask("POST", "/sdapi/v1/skip").code, 200);
  engine_.WaitUntilCancelled();
  EXPECT_EQ(client.Read().code, 503);
}

}  // namespace
}  // namespace latentd::server::http
