// Videos as jobs over HTTP, by real connections to a server whose engine does what the test says.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "nlohmann/json.hpp"
#include "tests/server/completed_video.h"
#include "tests/server/http/http_client.h"
#include "tests/server/running_server.h"
#include "tests/support/recording_sink.h"

namespace latentd::server::http {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kVideos[] = "/v1/videos";
constexpr char kRequest[] =
    R"({"prompt": "", "size": "64x32", "num_frames": 4, "input_reference": "QUJD", "seed": 5,
        "request_id": "mine"})";

constexpr int64_t kVideoBytes = int64_t{100} << 20;

class VideosServerTest : public RunningServer {
 protected:
  void SetUp() override {
    GrpcServer::Options options;
    options.http_listen = "127.0.0.1:0";
    options.video_bytes = kVideoBytes;
    Start(std::move(options));
  }

  Received Ask(const std::string& method, const std::string& path, const std::string& body = "",
               const char* from = "127.0.0.1") {
    HttpClient client(server_->http_address(), from);
    return client.Ask(method, path, body);
  }

  json Create() {
    const Received received = Ask("POST", kVideos, kRequest);
    EXPECT_EQ(received.code, 200) << received.body;
    return json::parse(received.body);
  }
  json Show(const std::string& id) {
    return json::parse(Ask("GET", absl::StrCat(kVideos, "/", id)).body);
  }
  Received Fetch(const std::string& id) {
    return Ask("GET", absl::StrCat(kVideos, "/", id, "/content"));
  }

  void Begin(size_t number = 0) {
    engine_.Send(engine::Queued{"", 3}, number);
    engine_.Send(engine::Started{{64, 32, 4}}, number);
  }
  static engine::Image PartOf(const std::string& bytes, int64_t offset, bool is_last) {
    return {.seed = 5,
            .size = {64, 32},
            .bytes = bytes,
            .part = engine::VideoPart{.format = image::VideoFormat::kApng,
                                      .video_frames = 4,
                                      .offset = offset,
                                      .frames = 2,
                                      .is_last = is_last}};
  }
  void Finish(const std::string& bytes, size_t number = 0) {
    engine_.Send(PartOf(bytes, 0, /*is_last=*/true), number);
    engine_.Send(CompletedVideo({"a warning"}), number);
  }

  static std::string CodeOf(const Received& received) {
    return json::parse(received.body)["error"]["code"];
  }
};

TEST_F(VideosServerTest, AVideoIsAskedForPolledAndFetched) {
  const json created = Create();
  const std::string id = created["id"];
  EXPECT_EQ(created["object"], "video");
  EXPECT_EQ(created["status"], "queued");
  EXPECT_EQ(created["progress"], 0);
  EXPECT_EQ(created["size"], "64x32");
  EXPECT_EQ(created["latentd"]["request_id"], "mine");
  const engine::GenerateSpec spec = engine_.WaitForSpec();
  EXPECT_EQ(spec.inputs->image, "ABC");
  EXPECT_EQ(spec.picture.video->num_frames, 4);
  ASSERT_TRUE(spec.video_file.has_value());
  EXPECT_EQ(spec.video_file->format, image::VideoFormat::kWebp);

  engine_.Send(engine::Queued{"", 3});
  EXPECT_EQ(Show(id)["latentd"]["position"], 3);
  engine_.Send(engine::Started{{64, 32, 4}});
  engine_.Send(engine::Progress{.step = 10, .total_steps = 20});
  const json running = Show(id);
  EXPECT_EQ(running["status"], "in_progress");
  EXPECT_EQ(running["progress"], 47);
  EXPECT_EQ(running["completed_at"], nullptr);
  const Received early = Fetch(id);
  EXPECT_EQ(early.code, 404);
  EXPECT_EQ(CodeOf(early), "video_not_ready");

  const std::string first(700000, 'a'), second(300000, 'b');
  engine_.Send(PartOf(first, 0, /*is_last=*/false));
  engine_.Send(PartOf(second, static_cast<int64_t>(first.size()), /*is_last=*/true));
  engine_.Send(CompletedVideo({"a warning"}));
  const json done = Show(id);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["progress"], 100);
  EXPECT_EQ(done["expires_at"].get<int64_t>() - done["completed_at"].get<int64_t>(), 3600);
  EXPECT_EQ(done["latentd"]["bytes"], 1000000);
  EXPECT_THAT(done["latentd"]["warnings"], ElementsAre("a warning"));
  for (int times = 0; times < 2; ++times) {
    const Received file = Fetch(id);
    EXPECT_EQ(file.code, 200);
    EXPECT_EQ(file.headers.at("content-type"), "image/apng");
    EXPECT_TRUE(file.body == first + second);
  }
  HttpClient client(server_->http_address());
  const Received head = client.Ask("HEAD", absl::StrCat(kVideos, "/", id, "/content"));
  EXPECT_EQ(head.headers.at("content-length"), "1000000");
  EXPECT_EQ(client.Ask("GET", kVideos).code, 200) << "the connection goes on behind it";
}

TEST_F(VideosServerTest, FilesCountUntilTheyAreDeletedAndHaveTheLimitThatIsSet) {
  const auto files = [&] {
    for (const process::ClientBytes& bytes : server_->client_memory()) {
      if (bytes.kind == "video_files") return bytes;
    }
    return process::ClientBytes();
  };
  EXPECT_EQ(files().held, 0);
  EXPECT_EQ(files().most, kVideoBytes);
  const std::string id = Create()["id"];
  Begin();
  Finish(std::string(700, 'a'));
  EXPECT_EQ(Show(id)["status"], "completed");
  EXPECT_EQ(files().held, 700);
  server_->ShowClientMemory();
  EXPECT_EQ(engine_.metrics().GetGauge(metrics::kClientMemory, {"video_files"}).Value(), 700);
  EXPECT_EQ(engine_.metrics().GetGauge(metrics::kClientMemoryLimit, {"video_files"}).Value(),
            kVideoBytes);
  Ask("DELETE", absl::StrCat(kVideos, "/", id));
  const absl::Time give_up = absl::Now() + testing::kLongestWait;
  while (files().held > 0 && absl::Now() < give_up) std::this_thread::yield();
  EXPECT_EQ(files().held, 0);
}

TEST_F(VideosServerTest, AFileThatIsKeptWaitsForNoReader) {
  const std::string id = Create()["id"];
  Begin();
  absl::Notification gone;
  engine::Image part = PartOf("file", 0, /*is_last=*/true);
  part.unread = NotifyWhenGone(gone);
  engine_.Send(std::move(part));
  EXPECT_TRUE(gone.HasBeenNotified()) << "others would wait for its client";
  engine_.Send(CompletedVideo());
  EXPECT_EQ(Fetch(id).body, "file");
}

TEST_F(VideosServerTest, DeletingStopsItsWorkAndForgetsIt) {
  const std::string id = Create()["id"];
  Begin();
  const Received deleted = Ask("DELETE", absl::StrCat(kVideos, "/", id));
  EXPECT_EQ(json::parse(deleted.body),
            json({{"id", id}, {"object", "video.deleted"}, {"deleted", true}}));
  engine_.WaitUntilCancelled();
  EXPECT_EQ(Ask("GET", absl::StrCat(kVideos, "/", id)).code, 404);
  EXPECT_EQ(CodeOf(Ask("DELETE", absl::StrCat(kVideos, "/", id))), "no_such_video");
  const std::string other = Create()["id"];
  Begin(1);
  Finish("file", 1);
  EXPECT_EQ(Ask("DELETE", absl::StrCat(kVideos, "/", other, "/content")).code, 404);
  EXPECT_EQ(Fetch(other).body, "file");
  EXPECT_EQ(Ask("DELETE", absl::StrCat(kVideos, "/", other)).code, 200);
  EXPECT_EQ(Fetch(other).code, 404);
}

TEST_F(VideosServerTest, AFailureIsTold) {
  const std::string id = Create()["id"];
  engine_.Send(engine::Failed{
      WithReason(absl::ResourceExhaustedError("no memory for a chunk"), "OUT_OF_MEMORY")});
  const json failed = Show(id);
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"]["code"], "out_of_memory");
  EXPECT_THAT(failed["error"]["message"], HasSubstr("no memory for a chunk"));
  const Received file = Fetch(id);
  EXPECT_EQ(file.code, 404);
  EXPECT_EQ(CodeOf(file), "video_failed");
}

TEST_F(VideosServerTest, OthersHaveNoPartInIt) {
  const std::string path = absl::StrCat(kVideos, "/", std::string(Create()["id"]));
  Begin();
  Finish("file");
  for (const char* method : {"GET", "DELETE"}) {
    EXPECT_EQ(Ask(method, path, "", "127.0.0.2").code, 404) << method;
  }
  EXPECT_EQ(Ask("GET", path + "/content", "", "127.0.0.2").code, 404);
  EXPECT_THAT(json::parse(Ask("GET", kVideos, "", "127.0.0.2").body)["data"], IsEmpty());
  EXPECT_EQ(Ask("GET", path + "/content").body, "file");
}

TEST_F(VideosServerTest, TheListHasPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Create()["id"]);
  const auto list = [&](const std::string& query) {
    return json::parse(Ask("GET", absl::StrCat(kVideos, query)).body);
  };
  const auto ids_of = [](const json& page) {
    std::vector<std::string> ids;
    for (const json& video : page["data"]) ids.push_back(video["id"]);
    return ids;
  };
  EXPECT_THAT(ids_of(list("")), ElementsAre(ids[2], ids[1], ids[0]));
  const json page = list("?limit=2&order=asc");
  EXPECT_THAT(ids_of(page), ElementsAre(ids[0], ids[1]));
  EXPECT_EQ(page["last_id"], ids[1]);
  EXPECT_EQ(page["has_more"], true);
  const json rest = list(absl::StrCat("?order=%61sc&after=", ids[1]));
  EXPECT_THAT(ids_of(rest), ElementsAre(ids[2]));
  EXPECT_EQ(rest["has_more"], false);
  for (const char* query : {"?limit=0", "?limit=x", "?order=up", "?after=none"}) {
    EXPECT_EQ(Ask("GET", absl::StrCat(kVideos, query)).code, 400) << query;
  }
}

TEST_F(VideosServerTest, WhatEndedLongAgoIsDropped) {
  const std::string ended = Create()["id"], running = Create()["id"];
  Begin();
  Finish("file");
  clock_.Advance(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(Fetch(ended).body, "file");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Fetch(ended).code, 404);
  EXPECT_EQ(Show(running)["status"], "queued") << "it is still in work";
}

TEST_F(VideosServerTest, WhatIsRefusedIsNoVideo) {
  const Received refused = Ask("POST", kVideos, R"({"size": "63x32", "nonsense": 1})");
  EXPECT_EQ(refused.code, 400);
  EXPECT_EQ(CodeOf(refused), "unknown_parameter");
  EXPECT_NE(refused.headers.at("x-request-id"), "");
  EXPECT_EQ(CodeOf(Ask("POST", kVideos, R"({"size": "63x32", "image": "QUJD"})")), "bad_fields");
  engine_.set_submit_status(
      WithReason(absl::FailedPreconditionError("it draws no videos"), "NO_VIDEO_MODEL"));
  EXPECT_EQ(CodeOf(Ask("POST", kVideos, kRequest)), "no_video_model");
  EXPECT_THAT(json::parse(Ask("GET", kVideos).body)["data"], IsEmpty());
  EXPECT_EQ(Ask("PUT", kVideos).code, 405);
}

}  // namespace
}  // namespace latentd::server::http
