// The client against a server that fails as scripted, and against bytes as a proxy sends them when
// the server behind it has died.
#include "client/rpc/latent_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/client/failed_calls.h"
#include "tests/client/scripted_server.h"

namespace latentd::client {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr RetryPolicy kAtOnce{
    .retries = 3, .first_pause = absl::ZeroDuration(), .longest_pause = absl::ZeroDuration()};

v1::GenerateRequest Sized(int width, int height) {
  v1::GenerateRequest request;
  request.set_width(width);
  request.set_height(height);
  return request;
}

v1::GenerateRequest Snapped(int width, int height) {
  v1::GenerateRequest request = Sized(width, height);
  request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  return request;
}

std::vector<std::string> Buckets(const ScriptedServer& server) {
  std::vector<std::string> buckets;
  for (const ScriptedServer::Call& call : server.calls()) buckets.push_back(call.bucket);
  return buckets;
}

TEST(LatentClientTest, EveryTryDrawsTheSameSeed) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE)},
                         {Failed(StatusCode::RESOURCE_EXHAUSTED, absl::ZeroDuration())}});
  Client client(server.address(), kAtOnce);
  int pictures = 0, retries = 0;
  const grpc::Status status = client.Generate(
      Sized(64, 64), {.on_image = [&](const v1::Image&) { ++pictures; },
                      .on_retry = [&](const Retry& retry) { EXPECT_EQ(retry.number, ++retries); }});
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(pictures, 1);
  EXPECT_EQ(retries, 2);
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_TRUE(calls[0].request.has_seed());
  EXPECT_EQ(calls[0].request.seed(), calls[2].request.seed());
}

TEST(LatentClientTest, GivenSeedsStay) {
  ScriptedServer server;
  Client client(server.address());
  v1::GenerateRequest request = Sized(64, 64);
  request.add_seeds(5);
  client.Generate(request, {});
  request.clear_seeds();
  request.set_seed(7);
  client.Generate(request, {});
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_FALSE(calls[0].request.has_seed());
  EXPECT_EQ(calls[1].request.seed(), 7);
}

TEST(LatentClientTest, EveryCallShowsTheKey) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/1}});
  server.set_resume_status(Failed(StatusCode::UNAVAILABLE));
  Client client(server.address(), {.retries = 1, .first_pause = absl::ZeroDuration()}, std::nullopt,
                "the-key");
  v1::GenerateRequest request;
  request.set_resumable(true);
  client.Generate(request, {});
  v1::EncodeResponse encoded;
  client.Encode({}, absl::InfiniteDuration(), encoded);
  EXPECT_THAT(server.authorizations(),
              ElementsAre("GetCapabilities Bearer the-key", "GenerateStream Bearer the-key",
                          "ResumeStream Bearer the-key", "CancelGeneration Bearer the-key",
                          "Encode Bearer the-key"));
}

TEST(LatentClientTest, WithoutAKeyNoCallShowsOne) {
  ScriptedServer server;
  Client client(server.address());
  client.Generate(Sized(64, 64), {});
  EXPECT_THAT(server.authorizations(), ElementsAre("GenerateStream none"));
}

TEST(LatentClientTest, APictureThatWasReceivedEndsTheTries) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/1}});
  Client client(server.address(), kAtOnce);
  EXPECT_EQ(client.Generate(Sized(64, 64), {}).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(LatentClientTest, FaultsAndRefusalsAreNotTriedAgain) {
  for (const StatusCode code : {StatusCode::INTERNAL, StatusCode::INVALID_ARGUMENT,
                                StatusCode::RESOURCE_EXHAUSTED, StatusCode::DEADLINE_EXCEEDED}) {
    ScriptedServer server({{Failed(code)}});
    Client client(server.address(), kAtOnce);
    EXPECT_EQ(client.Generate(Sized(64, 64), {}).error_code(), code);
    EXPECT_THAT(server.calls(), SizeIs(1));
  }
}

TEST(LatentClientTest, CancellingEndsAPauseAndWhatComesLater) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE, absl::Hours(1))}});
  Client client(server.address());
  const grpc::Status status =
      client.Generate(Sized(64, 64), {.on_retry = [&](const Retry&) { client.Cancel(); }});
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(client.Generate(Sized(64, 64), {}).error_code(), StatusCode::CANCELLED);
}

TEST(LatentClientTest, APauseBeyondTheTimeoutEndsItWithItsReason) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE, absl::Hours(1))}});
  Client client(server.address());
  EXPECT_EQ(client.Generate(Sized(64, 64), {}, std::chrono::minutes(1)).error_code(),
            StatusCode::UNAVAILABLE);
}

TEST(LatentClientTest, TheBucketIsSaid) {
  ScriptedServer server;
  server.SetBuckets({{512, 512}, {128, 64}});
  Client client(server.address());
  client.Generate(Sized(96, 64), {});
  EXPECT_EQ(server.capabilities_asked(), 0);
  client.Generate({}, {});
  client.Generate(Snapped(96, 64), {});
  EXPECT_THAT(Buckets(server), ElementsAre("96x64", "256x256", "128x64"));
  EXPECT_EQ(server.capabilities_asked(), 1);
}

TEST(LatentClientTest, BucketsAreAskedForAgainWhereTheServerHasOthers) {
  google::rpc::ErrorInfo cold;
  cold.set_domain("latentd");
  cold.set_reason("BUCKET_COLD");
  google::rpc::BadRequest uncovered;
  uncovered.add_field_violations()->set_field("width");
  ScriptedServer server({{StatusWith(StatusCode::FAILED_PRECONDITION, "cold", cold)},
                         {StatusWith(StatusCode::INVALID_ARGUMENT, "uncovered", uncovered)}});
  Client client(server.address());
  for (int asked = 1; asked <= 3; ++asked) {
    server.SetBuckets({{96 + 32 * asked, 64}});
    client.Generate(Snapped(96, 64), {});
    EXPECT_EQ(server.capabilities_asked(), asked);
  }
  EXPECT_THAT(Buckets(server), ElementsAre("128x64", "160x64", "192x64"));
}

// Answers every connection with the same bytes of HTTP/2: settings, that no more calls are taken,
// headers of a gRPC answer, and what `end` says in hexadecimal.
class RawServer {
 public:
  explicit RawServer(const std::string& end) {
    const std::string headers =
        absl::HexStringToBytes("88") + absl::HexStringToBytes("5f10") + "application/grpc";
    bytes_ = absl::HexStringToBytes("0000080700000000000000000100000000") +  // GOAWAY after call 1
             std::string("\0\0", 2) + static_cast<char>(headers.size()) +
             absl::HexStringToBytes("010400000001") + headers + absl::HexStringToBytes(end);
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    listen(listener_, 8);
    thread_ = std::thread(&RawServer::Loop, this);
  }
  ~RawServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  const std::string& address() const { return address_; }

 private:
  // One connection after the other, each until its client leaves.
  void Loop() {
    for (int connection; (connection = accept(listener_, nullptr, nullptr)) >= 0;) {
      Answer(connection);
      close(connection);
    }
  }

  // Settings at once, without which a client sends nothing; the answer when the HEADERS frame of
  // the call has come. The client closes the connection: were it closed here, it would sometimes
  // see that before the answer.
  void Answer(int connection) {
    const std::string settings = absl::HexStringToBytes("000000040000000000");
    if (write(connection, settings.data(), settings.size()) < 0) return;
    std::string received;
    char part[4096];
    for (ssize_t size; (size = read(connection, part, sizeof(part))) > 0;) {
      received.append(part, static_cast<size_t>(size));
      if (received.find("GenerateStream") == std::string::npos) continue;
      if (write(connection, bytes_.data(), bytes_.size()) < 0) return;
      received.clear();
    }
  }

  std::string bytes_;
  std::string address_;
  int listener_ = -1;
  std::thread thread_;
};

class ResumedStreamTest : public ::testing::Test {
 protected:
  grpc::Status Generate(ScriptedServer& server, bool resumable = true) {
    Client client(server.address(), kAtOnce);
    v1::GenerateRequest request = Sized(64, 64);
    request.set_resumable(resumable);
    return client.Generate(request, {.on_image = [this](const v1::Image& image) {
                             pictures_.push_back(image.data());
                           }});
  }

  static grpc::Status Unknown() { return FailedFor(StatusCode::NOT_FOUND, "NO_SUCH_STREAM"); }

  // One that is cancelled before the server has said a word of it.
  static grpc::Status GenerateCancelled(ScriptedServer& server, const std::string& id) {
    Client client(server.address(), kAtOnce);
    client.Cancel();
    v1::GenerateRequest request = Sized(64, 64);
    request.set_resumable(true);
    request.set_request_id(id);
    return client.Generate(request, {});
  }

  std::vector<std::string> pictures_;
};

TEST_F(ResumedStreamTest, TakesUpTheStreamWhereItBroke) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/1, /*part=*/"da"}});
  EXPECT_TRUE(Generate(server).ok());
  EXPECT_THAT(pictures_, ElementsAre("data", "data"));
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_FALSE(calls[0].request.request_id().empty());
  const auto resumed = server.resumed();
  ASSERT_THAT(resumed, SizeIs(1));
  EXPECT_EQ(resumed[0].request_id(), calls[0].request.request_id());
  EXPECT_EQ(resumed[0].received_images(), 1);
  EXPECT_EQ(resumed[0].received_bytes(), 2);
  EXPECT_THAT(server.cancelled(), IsEmpty());
}

TEST_F(ResumedStreamTest, OnlyWhereItWasAskedFor) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/0, /*part=*/"da"}});
  EXPECT_TRUE(Generate(server, /*resumable=*/false).ok());
  EXPECT_THAT(pictures_, ElementsAre("data"));
  EXPECT_THAT(server.calls(), SizeIs(2));
  EXPECT_THAT(server.resumed(), IsEmpty());
}

TEST_F(ResumedStreamTest, BeginsAgainWhereTheServerKnowsNothingOfIt) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/0, /*part=*/"da"}});
  server.set_resume_status(Unknown());
  EXPECT_TRUE(Generate(server).ok());
  EXPECT_THAT(pictures_, ElementsAre("data"));
  EXPECT_THAT(server.calls(), SizeIs(2));
}

TEST_F(ResumedStreamTest, DrawsNoPictureTwice) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/1}});
  server.set_resume_status(Unknown());
  EXPECT_EQ(Generate(server).error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST_F(ResumedStreamTest, WhatIsGivenUpIsCancelledOnTheServer) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE), /*pictures=*/1}});
  server.set_resume_status(Failed(StatusCode::UNAVAILABLE));
  EXPECT_EQ(Generate(server).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(server.resumed(), SizeIs(kAtOnce.retries));
  EXPECT_THAT(server.cancelled(), ElementsAre(server.calls()[0].request.request_id()));
}

TEST_F(ResumedStreamTest, WhatTheServerRefusesIsNoStreamToTakeUp) {
  ScriptedServer server({{Failed(StatusCode::INVALID_ARGUMENT)}});
  EXPECT_EQ(Generate(server).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(server.resumed(), IsEmpty());
  EXPECT_THAT(server.cancelled(), IsEmpty());
}

TEST_F(ResumedStreamTest, TakesUpWhatAnEarlierTryBegan) {
  ScriptedServer server({{Failed(StatusCode::UNAVAILABLE)},
                         {FailedFor(StatusCode::ALREADY_EXISTS, "STREAM_EXISTS")}});
  EXPECT_TRUE(Generate(server).ok());
  EXPECT_THAT(pictures_, ElementsAre("data", "data"));
  EXPECT_THAT(server.resumed(), SizeIs(1));
}

TEST_F(ResumedStreamTest, LeavesAnothersStreamOfThatNameAlone) {
  ScriptedServer server({{FailedFor(StatusCode::ALREADY_EXISTS, "STREAM_EXISTS")}});
  EXPECT_EQ(Generate(server).error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(GenerateCancelled(server, "another's").error_code(), StatusCode::CANCELLED);
  EXPECT_THAT(server.resumed(), IsEmpty());
  EXPECT_THAT(server.cancelled(), IsEmpty());
  EXPECT_EQ(GenerateCancelled(server, "").error_code(), StatusCode::CANCELLED);
  EXPECT_THAT(server.cancelled(), SizeIs(1));
}

TEST_F(ResumedStreamTest, LosesItsStreamToANewerReaderWithoutEndingTheWork) {
  ScriptedServer server({{FailedFor(StatusCode::ABORTED, "TAKEN_OVER"), /*pictures=*/1}});
  EXPECT_EQ(Generate(server).error_code(), StatusCode::ABORTED);
  EXPECT_THAT(server.resumed(), IsEmpty());
  EXPECT_THAT(server.cancelled(), IsEmpty());
}

TEST_F(ResumedStreamTest, WhatWasCancelledOnTheServerIsNotBegunAgain) {
  for (const char* part : {"", "da"}) {
    ScriptedServer server(
        {{FailedFor(StatusCode::CANCELLED, "STREAM_DROPPED"), /*pictures=*/0, part}});
    EXPECT_EQ(Generate(server).error_code(), StatusCode::CANCELLED);
    EXPECT_THAT(server.calls(), SizeIs(1));
    EXPECT_THAT(server.resumed(), IsEmpty());
    EXPECT_THAT(server.cancelled(), IsEmpty());
  }
}

struct Broken {
  StatusCode code = StatusCode::OK;
  int retries = 0;
};

// Runs a stream that ends like this; returns its result and the number of retries.
Broken Generate(const std::string& end) {
  RawServer server(end);
  Client client(server.address(), {.retries = 1, .first_pause = absl::ZeroDuration()});
  Broken broken;
  broken.code = client
                    .Generate(Sized(64, 64), {.on_retry = [&](const Retry&) { ++broken.retries; }},
                              std::chrono::seconds(5))
                    .error_code();
  return broken;
}

TEST(BrokenStreamTest, WithoutAStatus) {
  const Broken broken = Generate("000000000100000001");  // DATA, END_STREAM: HAProxy's
  EXPECT_EQ(broken.code, StatusCode::UNKNOWN);
  EXPECT_EQ(broken.retries, 1);
}

TEST(BrokenStreamTest, WithinAMessage) {
  const Broken broken = Generate("0000060001000000010000000040ab");  // 1 of its 64 bytes
  EXPECT_EQ(broken.code, StatusCode::UNKNOWN);
  EXPECT_EQ(broken.retries, 1);
}

TEST(BrokenStreamTest, Reset) {
  const Broken cancelled = Generate("00000403000000000100000008");
  EXPECT_EQ(cancelled.code, StatusCode::CANCELLED);
  EXPECT_EQ(cancelled.retries, 1);
  const Broken internal = Generate("00000403000000000100000002");
  EXPECT_EQ(internal.code, StatusCode::INTERNAL);
  EXPECT_EQ(internal.retries, 1);
}

}  // namespace
}  // namespace latentd::client
