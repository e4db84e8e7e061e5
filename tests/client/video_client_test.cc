// Client::GenerateVideo, on a server that ends its calls as it is told.
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/latent_client.h"
#include "client/rpc/video_parts.h"

namespace latentd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// A call's chunks, and how it ends.
struct VideoScript {
  std::vector<v1::FrameChunk> chunks;
  grpc::Status status;
  std::vector<v1::VideoChunk> parts = {};
};

class VideoServer final : public v1::VideoGeneration::Service {
 public:
  explicit VideoServer(std::deque<VideoScript> scripts) : scripts_(std::move(scripts)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~VideoServer() override { server_->Shutdown(); }

  grpc::Status GenerateVideo(grpc::ServerContext*, const v1::GenerateVideoRequest* request,
                             grpc::ServerWriter<v1::VideoEvent>* writer) override {
    VideoScript script;
    {
      absl::MutexLock lock(&mutex_);
      requests_.push_back(*request);
      if (!scripts_.empty()) {
        script = std::move(scripts_.front());
        scripts_.pop_front();
      }
    }
    return Send(script, *writer);
  }

  grpc::Status ResumeVideo(grpc::ServerContext*, const v1::ResumeVideoRequest* request,
                           grpc::ServerWriter<v1::VideoEvent>* writer) override {
    VideoScript script;
    {
      absl::MutexLock lock(&mutex_);
      resumed_.push_back(absl::StrCat(request->request_id(), " ", request->received_bytes()));
      if (!scripts_.empty()) {
        script = std::move(scripts_.front());
        scripts_.pop_front();
      }
    }
    return Send(script, *writer);
  }

  grpc::Status CancelVideo(grpc::ServerContext*, const v1::CancelGenerationRequest* request,
                           v1::CancelGenerationResponse*) override {
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(request->request_id());
    return grpc::Status::OK;
  }

  static grpc::Status Send(const VideoScript& script, grpc::ServerWriter<v1::VideoEvent>& writer) {
    v1::VideoEvent started;
    started.mutable_started();
    writer.Write(started);
    for (const v1::FrameChunk& chunk : script.chunks) {
      v1::VideoEvent event;
      *event.mutable_frame_chunk() = chunk;
      writer.Write(event);
    }
    for (const v1::VideoChunk& part : script.parts) {
      v1::VideoEvent event;
      *event.mutable_video_chunk() = part;
      writer.Write(event);
    }
    return script.status;
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::vector<v1::GenerateVideoRequest> requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // Calls of ResumeVideo: the name, and the bytes that the client has.
  std::vector<std::string> resumed() const {
    absl::MutexLock lock(&mutex_);
    return resumed_;
  }
  std::vector<std::string> cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::deque<VideoScript> scripts_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::GenerateVideoRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> resumed_ ABSL_GUARDED_BY(mutex_), cancelled_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

v1::FrameChunk ChunkOf(int video, int frame, int64_t offset, const std::string& data,
                       int64_t total) {
  v1::FrameChunk chunk;
  chunk.set_video_index(video);
  chunk.set_frame(frame);
  chunk.set_seed(7);
  chunk.set_mime_type("image/png");
  chunk.set_offset(offset);
  chunk.set_total_bytes(total);
  chunk.set_data(data);
  return chunk;
}

// `total`: 0 while it is not known.
v1::VideoChunk PartOf(int video, int64_t offset, const std::string& data, int64_t total) {
  v1::VideoChunk part;
  part.set_video_index(video);
  part.set_offset(offset);
  part.set_total_bytes(total);
  part.set_data(data);
  return part;
}

grpc::Status Unavailable() { return {grpc::StatusCode::UNAVAILABLE, "loading"}; }

class VideoClientTest : public ::testing::Test {
 protected:
  // Frames as "VIDEO.FRAME=DATA", parts as "VIDEO+DATA" and the last with ".".
  grpc::Status Draw(const VideoServer& server, const v1::GenerateVideoRequest& request = {}) {
    Client client(server.address(), {.retries = 2, .first_pause = absl::Milliseconds(1)});
    return client.GenerateVideo(
        request,
        {.on_event = [this](const v1::VideoEvent& event) { events_ += event.has_started(); },
         .on_frame =
             [this](const VideoFrame& frame) {
               frames_.push_back(
                   absl::StrCat(frame.video, ".", frame.frame, "=", frame.image.data()));
             },
         .on_part =
             [this](const v1::VideoChunk& part) {
               frames_.push_back(absl::StrCat(part.video_index(), "+", part.data(),
                                              VideoParts::Ends(part) ? "." : ""));
             },
         .on_retry = [this](const Retry&) { ++retries_; }});
  }

  std::vector<std::string> frames_;
  int events_ = 0, retries_ = 0;
};

TEST_F(VideoClientTest, PutsFramesTogether) {
  const VideoServer server({{{ChunkOf(1, 4, 0, "ab", 3), ChunkOf(1, 4, 2, "c", 3),
                              ChunkOf(0, 4, 0, "d", 1), ChunkOf(0, 127, 0, "e", 1)},
                             grpc::Status::OK}});
  EXPECT_TRUE(Draw(server).ok());
  EXPECT_THAT(frames_, ElementsAre("1.4=abc", "0.4=d", "0.127=e"));
  EXPECT_EQ(events_, 1);
  ASSERT_THAT(server.requests(), SizeIs(1));
  EXPECT_TRUE(server.requests()[0].has_seed());
}

TEST_F(VideoClientTest, PartsOfTwoFramesAreNoFrame) {
  const VideoServer server(
      {{{ChunkOf(0, 4, 0, "ab", 3), ChunkOf(1, 4, 2, "c", 3)}, grpc::Status::OK}});
  EXPECT_EQ(Draw(server).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(frames_, SizeIs(0));
}

TEST_F(VideoClientTest, HandsOnTheFilesOfSeveralVideos) {
  const VideoServer server({{{},
                             grpc::Status::OK,
                             {PartOf(0, 0, "ab", 0), PartOf(1, 0, "A", 0), PartOf(0, 2, "c", 4),
                              PartOf(1, 1, "B", 2), PartOf(0, 3, "d", 4)}}});
  EXPECT_TRUE(Draw(server).ok());
  EXPECT_THAT(frames_, ElementsAre("0+ab", "1+A", "0+c", "1+B.", "0+d."));
}

TEST_F(VideoClientTest, AFileWithAGapOrWithoutAnEndIsBroken) {
  for (const std::vector<v1::VideoChunk>& parts :
       {std::vector<v1::VideoChunk>{PartOf(0, 0, "ab", 0), PartOf(0, 3, "c", 4)},
        {PartOf(0, 1, "b", 2)},
        {PartOf(0, 0, "ab", 0), PartOf(0, 1, "b", 0)},
        {PartOf(0, 0, "ab", 1)},
        {PartOf(0, 0, "a", 1), PartOf(0, 1, "b", 0)},
        {PartOf(0, 0, "a", 1), PartOf(1, 0, "a", 0)}}) {
    const VideoServer server({{{}, grpc::Status::OK, parts}});
    EXPECT_EQ(Draw(server).error_code(), grpc::StatusCode::DATA_LOSS) << parts.size();
    EXPECT_EQ(retries_, 0);
  }
}

TEST_F(VideoClientTest, DoesNotTryAgainOnceAPartHasCome) {
  const VideoServer server({{{}, Unavailable(), {PartOf(0, 0, "a", 0)}}});
  EXPECT_EQ(Draw(server).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(retries_, 0);
  EXPECT_THAT(frames_, ElementsAre("0+a"));
}

v1::GenerateVideoRequest ResumableVideo(const std::string& id = "mine") {
  v1::GenerateVideoRequest request;
  request.set_resumable(true);
  request.set_request_id(id);
  return request;
}

grpc::Status Gone() { return {grpc::StatusCode::UNAVAILABLE, "Socket closed"}; }

TEST_F(VideoClientTest, TakesFramesUpWhereTheyBroke) {
  const VideoServer server({{{ChunkOf(0, 1, 0, "abc", 3), ChunkOf(0, 0, 0, "d", 3)}, Gone()},
                            {{ChunkOf(0, 0, 1, "e", 3)}, Gone()},
                            {{ChunkOf(0, 0, 2, "f", 3)}, grpc::Status::OK}});
  EXPECT_TRUE(Draw(server, ResumableVideo()).ok());
  EXPECT_THAT(frames_, ElementsAre("0.1=abc", "0.0=def"));
  EXPECT_THAT(server.resumed(), ElementsAre("mine 4", "mine 5"));
  EXPECT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(server.cancelled(), SizeIs(0));
}

TEST_F(VideoClientTest, TakesFilesUpWhereTheyBroke) {
  const VideoServer server({{{}, Gone(), {PartOf(0, 0, "ab", 0), PartOf(1, 0, "A", 0)}},
                            {{}, grpc::Status::OK, {PartOf(0, 2, "c", 3), PartOf(1, 1, "B", 2)}}});
  EXPECT_TRUE(Draw(server, ResumableVideo("")).ok());
  EXPECT_THAT(frames_, ElementsAre("0+ab", "1+A", "0+c.", "1+B."));
  ASSERT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(server.resumed(), ElementsAre(absl::StrCat(server.requests()[0].request_id(), " 3")));
}

TEST_F(VideoClientTest, WhatItGivesUpIsCancelled) {
  const VideoServer server({{{ChunkOf(0, 0, 0, "a", 1)}, Gone()}, {{}, Gone()}, {{}, Gone()}});
  EXPECT_EQ(Draw(server, ResumableVideo()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(retries_, 2);
  EXPECT_THAT(server.cancelled(), ElementsAre("mine"));
}

// Every try draws the same: with one seed.
TEST_F(VideoClientTest, TriesAgainAsLongAsNoFrameHasCome) {
  const VideoServer server({{{}, Unavailable()}, {{ChunkOf(0, 0, 0, "a", 1)}, Unavailable()}});
  EXPECT_EQ(Draw(server).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(retries_, 1);
  EXPECT_THAT(frames_, ElementsAre("0.0=a"));
  ASSERT_THAT(server.requests(), SizeIs(2));
  EXPECT_EQ(server.requests()[0].seed(), server.requests()[1].seed());
}

}  // namespace
}  // namespace latentd::client
