// GenerateVideo over a real connection.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include <string>
#include <thread>
#include <vector>

#include "latent/v1/video_generation.grpc.pb.h"
#include "server/generation/outbox.h"
#include "tests/server/running_server.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using generation::kChunkBytes;
using ::testing::SizeIs;

class VideoCallTest : public RunningServer {
 protected:
  void SetUp() override {
    RunningServer::SetUp();
    videos_ = v1::VideoGeneration::NewStub(channel_);
  }

  static v1::GenerateVideoRequest VideoRequest() {
    v1::GenerateVideoRequest request;
    request.set_request_id("v");
    request.set_image("image");
    request.set_fps(9);
    return request;
  }

  grpc::Status Draw(const v1::GenerateVideoRequest& request, std::vector<v1::VideoEvent>& events) {
    grpc::ClientContext context;
    const auto reader = videos_->GenerateVideo(&context, request);
    v1::VideoEvent event;
    while (reader->Read(&event)) events.push_back(event);
    return reader->Finish();
  }

  std::unique_ptr<v1::VideoGeneration::Stub> videos_;
};

// A frame larger than a chunk is put together by its client of what was sent from where it lies.
TEST_F(VideoCallTest, SendsFramesAsTheyCome) {
  std::string large(2 * kChunkBytes + 1, 'a');
  large.back() = 'z';
  std::vector<v1::VideoEvent> events;
  std::thread client([&] { EXPECT_TRUE(Draw(VideoRequest(), events).ok()); });
  engine_.Send(engine::Started{{64, 32, 2}});
  engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = "b", .frame = 1});
  engine_.Send(engine::Image{.index = 0, .seed = 7, .size = {64, 32}, .bytes = large, .frame = 0});
  engine_.Send(engine::Completed{.effective = {.video = pipeline::VideoSpec{.fps = 9}}});
  client.join();
  ASSERT_THAT(events, SizeIs(6));
  EXPECT_EQ(events[0].started().executed_size().num_frames(), 2);
  EXPECT_EQ(events[1].frame_chunk().frame(), 1);
  EXPECT_EQ(events[1].frame_chunk().data(), "b");
  std::string joined;
  for (size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(events[i].request_id(), "v");
    EXPECT_EQ(events[i].frame_chunk().frame(), 0);
    EXPECT_EQ(events[i].frame_chunk().offset(), static_cast<int64_t>(joined.size()));
    joined += events[i].frame_chunk().data();
  }
  EXPECT_EQ(joined, large);
  EXPECT_EQ(events[5].completed().parameters().fps(), 9);
  const engine::GenerateSpec spec = engine_.WaitForSpec();
  EXPECT_EQ(spec.picture.video->fps, 9);
  EXPECT_EQ(spec.inputs->image, "image");
}

TEST_F(VideoCallTest, SendsPreviewsAsTheyCome) {
  v1::GenerateVideoRequest request = VideoRequest();
  request.mutable_previews()->set_every_n_steps(2);
  std::vector<v1::VideoEvent> events;
  std::thread client([&] { EXPECT_TRUE(Draw(request, events).ok()); });
  EXPECT_EQ(engine_.WaitForSpec().picture.previews_every, 2);
  EXPECT_TRUE(engine_.WaitForSpec().picture.takes_previews);
  engine_.Send(engine::Preview{.image_index = 1,
                               .step = 2,
                               .total_steps = 9,
                               .size = {16, 8, 5},
                               .bytes = "animation",
                               .video_format = image::VideoFormat::kWebp});
  engine_.Send(engine::Completed{.effective = {.video = pipeline::VideoSpec()}});
  client.join();
  ASSERT_THAT(events, SizeIs(2));
  const v1::VideoPreview& preview = events[0].preview();
  EXPECT_EQ(preview.video_index(), 1);
  EXPECT_EQ(preview.step(), 2);
  EXPECT_EQ(preview.total_steps(), 9);
  EXPECT_EQ(preview.size().width(), 16);
  EXPECT_EQ(preview.size().height(), 8);
  EXPECT_EQ(preview.size().num_frames(), 5);
  EXPECT_EQ(preview.mime_type(), "image/webp");
  EXPECT_EQ(preview.data(), "animation");
}

// The log line counts frames, however few parts they come in.
TEST_F(VideoCallTest, SendsAFileAsItsPartsCome) {
  v1::GenerateVideoRequest request = VideoRequest();
  request.mutable_output()->set_file(v1::VIDEO_FORMAT_Y4M);
  std::vector<v1::VideoEvent> events;
  std::thread client([&] { EXPECT_TRUE(Draw(request, events).ok()); });
  engine::Image part{.seed = 7, .size = {64, 32}, .bytes = std::string(kChunkBytes + 1, 'a')};
  part.part = {.format = image::VideoFormat::kY4m, .video_frames = 5, .frames = 3};
  engine_.Send(part);
  part.part = {.format = image::VideoFormat::kY4m,
               .video_frames = 5,
               .offset = static_cast<int64_t>(part.bytes.size()),
               .frames = 2,
               .is_last = true};
  part.bytes = "z";
  engine_.Send(part);
  engine_.Send(engine::Completed{.effective = {.video = pipeline::VideoSpec()},
                                 .video_file = engine::VideoFile()});
  client.join();
  ASSERT_THAT(events, SizeIs(4));
  std::string joined;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].request_id(), "v");
    EXPECT_EQ(events[i].video_chunk().offset(), static_cast<int64_t>(joined.size()));
    joined += events[i].video_chunk().data();
  }
  EXPECT_EQ(joined, std::string(kChunkBytes + 1, 'a') + "z");
  EXPECT_EQ(events[2].video_chunk().total_bytes(), static_cast<int64_t>(joined.size()));
  EXPECT_EQ(events[3].completed().parameters().output().file(), v1::VIDEO_FORMAT_WEBP);
  EXPECT_EQ(engine_.WaitForSpec().video_file.value().format, image::VideoFormat::kY4m);
}

v1::GenerateVideoRequest ResumableOf(v1::GenerateVideoRequest request) {
  request.set_resumable(true);
  return request;
}

// Its client has a frame and a part of the next.
TEST_F(VideoCallTest, ABrokenStreamGoesOnWhereItBroke) {
  const std::string large = std::string(kChunkBytes, 'a') + "rest";
  {
    grpc::ClientContext context;
    const auto reader = videos_->GenerateVideo(&context, ResumableOf(VideoRequest()));
    engine_.Send(engine::Image{.seed = 7, .size = {64, 32}, .bytes = "bb", .frame = 1});
    engine_.Send(engine::Image{.seed = 7, .size = {64, 32}, .bytes = large, .frame = 0});
    v1::VideoEvent event;
    for (int chunks = 0; chunks < 2 && reader->Read(&event);) chunks += event.has_frame_chunk();
    EXPECT_EQ(event.frame_chunk().data(), std::string(kChunkBytes, 'a'));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  engine_.Send(engine::Image{.seed = 7, .size = {64, 32}, .bytes = "c", .frame = 2});
  engine_.Send(engine::Completed{.effective = {.video = pipeline::VideoSpec()}});
  for (const int64_t extra : {0, 2}) {
    grpc::ClientContext context;
    v1::ResumeVideoRequest request;
    request.set_request_id("v");
    request.set_received_bytes(2 + static_cast<int64_t>(kChunkBytes) + extra);
    const auto reader = videos_->ResumeVideo(&context, request);
    v1::VideoEvent event;
    ASSERT_TRUE(reader->Read(&event));
    EXPECT_EQ(event.request_id(), "v");
    EXPECT_EQ(event.frame_chunk().frame(), 0);
    EXPECT_EQ(event.frame_chunk().offset(), static_cast<int64_t>(kChunkBytes) + extra);
    EXPECT_EQ(event.frame_chunk().data(), extra == 0 ? "rest" : "st");
    ASSERT_TRUE(reader->Read(&event));
    EXPECT_EQ(event.frame_chunk().frame(), 2);
    ASSERT_TRUE(reader->Read(&event));
    EXPECT_TRUE(event.has_completed());
    EXPECT_FALSE(event.completed().parameters().resumable());
    EXPECT_FALSE(reader->Read(&event));
    EXPECT_TRUE(reader->Finish().ok());
  }
  EXPECT_EQ(engine_.job_count(), 1u);
}

TEST_F(VideoCallTest, ResumesVideosOnly) {
  v1::GenerateRequest pictures;
  pictures.set_request_id("p");
  pictures.set_prompt("a star");
  pictures.set_resumable(true);
  grpc::ClientContext of_pictures, of_rest, of_cancel, of_nothing;
  const auto reader = stub_->GenerateStream(&of_pictures, pictures);
  engine_.Send(engine::Started{{64, 32}});
  v1::GenerateEvent begun;
  ASSERT_TRUE(reader->Read(&begun));
  v1::ResumeVideoRequest rest;
  rest.set_request_id("p");
  v1::VideoEvent event;
  const auto resumed = videos_->ResumeVideo(&of_rest, rest);
  EXPECT_FALSE(resumed->Read(&event));
  const grpc::Status ended = resumed->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(ended), "NO_SUCH_STREAM");
  v1::CancelGenerationRequest cancel;
  cancel.set_request_id("p");
  v1::CancelGenerationResponse response;
  EXPECT_EQ(videos_->CancelVideo(&of_cancel, cancel, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  const auto nothing = videos_->ResumeVideo(&of_nothing, {});
  EXPECT_FALSE(nothing->Read(&event));
  EXPECT_EQ(nothing->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  engine_.Send(engine::Completed{});
  while (reader->Read(&begun)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(VideoCallTest, CancelVideoEndsTheWorkThatNobodyReads) {
  grpc::ClientContext context, of_cancel;
  const auto reader = videos_->GenerateVideo(&context, ResumableOf(VideoRequest()));
  engine_.Send(engine::Started{{64, 32, 2}});
  v1::VideoEvent event;
  EXPECT_TRUE(reader->Read(&event));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  v1::CancelGenerationRequest cancel;
  cancel.set_request_id("v");
  v1::CancelGenerationResponse response;
  EXPECT_TRUE(videos_->CancelVideo(&of_cancel, cancel, &response).ok());
  engine_.WaitUntilCancelled();
}

TEST_F(VideoCallTest, AResumableVideoHasAName) {
  v1::GenerateVideoRequest request = ResumableOf(VideoRequest());
  request.clear_request_id();
  std::vector<v1::VideoEvent> events;
  const grpc::Status status = Draw(request, events);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations(0).field(), "resumable");
}

TEST_F(VideoCallTest, TellsTheLimitsOfVideos) {
  v1::GenerateVideoRequest request = VideoRequest();
  request.set_width(63);
  std::vector<v1::VideoEvent> events;
  const grpc::Status status = Draw(request, events);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.reason(), "BAD_FIELDS");
  EXPECT_EQ(info.metadata().at("side_multiple"), "8");
  EXPECT_EQ(info.metadata().count("max_pixels"), 0u);
}

TEST_F(VideoCallTest, AClientThatLeavesEndsTheWork) {
  grpc::ClientContext context;
  const auto reader = videos_->GenerateVideo(&context, VideoRequest());
  engine_.Send(engine::Started{{64, 32, 2}});
  v1::VideoEvent event;
  EXPECT_TRUE(reader->Read(&event));
  context.TryCancel();
  engine_.WaitUntilCancelled();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(VideoCallTest, CapabilitiesListNoModelOfPictures) {
  grpc::ClientContext context;
  v1::GetVideoCapabilitiesResponse capabilities;
  ASSERT_TRUE(videos_->GetVideoCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.models_size(), 0);
  EXPECT_EQ(capabilities.version(), "test");
  EXPECT_EQ(capabilities.backend(), "fake");
}

}  // namespace
}  // namespace latentd::server::calls
