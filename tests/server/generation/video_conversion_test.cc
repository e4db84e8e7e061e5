#include "server/generation/conversion/video_conversion.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/image/video/video_format.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/video_fields.h"
#include "server/generation/conversion/field_conversion.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/generation/outbox.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Fields of the call, and files.
const std::set<std::string> kVideoWithoutRow = {"request_id", "image",    "latents",
                                                "output",     "priority", "resumable"};

v1::GenerateVideoRequest FullVideo() {
  v1::GenerateVideoRequest request;
  request.set_width(576);
  request.set_height(1024);
  request.set_num_frames(14);
  request.set_num_inference_steps(20);
  request.set_min_guidance_scale(0);
  request.set_max_guidance_scale(2.5);
  request.set_fps(12);
  request.set_motion_bucket_id(0);
  request.set_noise_aug_strength(0);
  request.set_resize_mode(v1::RESIZE_MODE_CROP);
  request.mutable_guidance_interval()->set_start(0.25);
  request.mutable_guidance_interval()->set_stop(0.5);
  request.set_decode_chunk_size(7);
  for (const double sigma : {5.0, 1.0, 0.0}) request.add_sigmas(sigma);
  request.set_seed(3);
  for (const uint64_t seed : {4, 5}) request.add_seeds(seed);
  request.set_num_videos_per_prompt(2);
  request.set_bucket_policy(v1::BUCKET_POLICY_COLD_OK);
  request.set_model("video");
  request.set_batch_invariant(true);
  request.mutable_previews()->set_every_n_steps(3);
  return request;
}

TEST(VideoFieldTableTest, EveryOtherFieldOfARequestHasARow) {
  std::set<std::string> fields, rows = kVideoWithoutRow;
  for (int i = 0; i < v1::GenerateVideoRequest::descriptor()->field_count(); ++i) {
    fields.insert(v1::GenerateVideoRequest::descriptor()->field(i)->name());
  }
  for (const pipeline::Field& row : pipeline::VideoFields()) {
    const absl::string_view name = row.name.substr(0, row.name.find('.'));  // message's field
    EXPECT_TRUE(rows.emplace(name).second) << row.name;
  }
  EXPECT_EQ(rows, fields);
}

TEST(VideoFieldTableTest, LimitsAreNumbersOfTheCapabilities) {
  for (const pipeline::Field& row : pipeline::VideoFields()) {
    for (const absl::string_view limit : row.limits) {
      const auto* field =
          v1::GetVideoCapabilitiesResponse::descriptor()->FindFieldByName(std::string(limit));
      ASSERT_NE(field, nullptr) << limit;
      EXPECT_THAT(field->cpp_type(),
                  AnyOf(FieldDescriptor::CPPTYPE_INT32, FieldDescriptor::CPPTYPE_DOUBLE));
    }
  }
}

// Zeros too, which are values of these.
TEST(VideoConversionTest, EveryFieldComesBack) {
  const v1::GenerateVideoRequest request = FullVideo();
  pipeline::PictureSpec spec;
  SetFields(request, spec);
  EXPECT_EQ(spec.width, 576);
  EXPECT_EQ(spec.num_images_per_prompt, 2);
  EXPECT_EQ(spec.video->num_frames, 14);
  EXPECT_EQ(spec.video->fps, 12);
  EXPECT_EQ(spec.video->motion_bucket_id, 0);
  EXPECT_EQ(spec.video->decode_chunk_size, 7);
  EXPECT_EQ(spec.previews_every, 3);
  v1::GenerateVideoRequest back;
  SetFields(spec, back);
  EXPECT_TRUE(MessageDifferencer::Equals(back, request)) << back.DebugString();
}

TEST(VideoConversionTest, WhatIsNotSetHasItsDefault) {
  const ConvertedRequest converted = ToSpec(v1::GenerateVideoRequest());
  EXPECT_THAT(converted.violations, IsEmpty());
  const pipeline::PictureSpec& spec = converted.spec.picture;
  EXPECT_EQ(spec.width, std::nullopt);
  EXPECT_EQ(spec.seed, std::nullopt);
  EXPECT_EQ(spec.video->num_frames, std::nullopt);
  EXPECT_EQ(spec.video->fps, pipeline::VideoSpec().fps);
  EXPECT_EQ(spec.video->max_guidance_scale, pipeline::VideoSpec().max_guidance_scale);
  EXPECT_EQ(converted.spec.output.format, image::Format::kPng);
}

TEST(VideoConversionTest, ImageAndLatentsAreInputs) {
  v1::GenerateVideoRequest request;
  request.set_latents("numbers");
  request.set_request_id("a");
  request.set_image("bytes");
  request.set_priority(2);
  request.mutable_output()->set_format(v1::FORMAT_JPEG);
  request.mutable_output()->set_quality(40);
  const ConvertedRequest converted = ToSpec(request);
  EXPECT_THAT(converted.violations, IsEmpty());
  EXPECT_EQ(converted.spec.request_id, "a");
  EXPECT_EQ(converted.spec.inputs->image, "bytes");
  EXPECT_EQ(converted.spec.inputs->latents, "numbers");
  EXPECT_EQ(converted.spec.priority, 2);
  EXPECT_EQ(converted.spec.output.format, image::Format::kJpeg);
  EXPECT_EQ(converted.spec.output.quality, 40);
}

TEST(VideoConversionTest, WrongFormIsNamed) {
  v1::GenerateVideoRequest request;
  request.set_request_id("a b");
  request.set_latents("");
  request.mutable_output()->set_quality(40);
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ToSpec(request).violations) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ElementsAre("request_id", "latents", "output.quality"));
}

v1::GenerateVideoRequest FileRequest(v1::VideoFormat format) {
  v1::GenerateVideoRequest request;
  request.mutable_output()->set_file(format);
  return request;
}

std::vector<std::string> WrongFieldsOf(const v1::GenerateVideoRequest& request) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ToSpec(request).violations) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(VideoConversionTest, AFileIsAnOutput) {
  EXPECT_EQ(ToSpec(v1::GenerateVideoRequest()).spec.video_file, std::nullopt);
  v1::GenerateVideoRequest request = FileRequest(v1::VIDEO_FORMAT_AVI);
  const engine::VideoFile file = ToSpec(request).spec.video_file.value();
  EXPECT_EQ(file.format, image::VideoFormat::kAvi);
  EXPECT_EQ(file.quality, 90);
  EXPECT_EQ(file.playback_fps, std::nullopt);
  EXPECT_TRUE(file.embed_parameters);
  request.mutable_output()->set_quality(40);
  request.mutable_output()->set_playback_fps(12.5);
  request.mutable_output()->set_embed_parameters(false);
  EXPECT_THAT(WrongFieldsOf(request), IsEmpty());
  engine::Completed completed{.video_file = ToSpec(request).spec.video_file};
  completed.effective.video.emplace();
  Outbox outbox("id", {});
  outbox.Add(std::move(completed), absl::UnixEpoch());
  const v1::VideoOutput told =
      ToVideoEvent(outbox.Next().value()).completed().parameters().output();
  EXPECT_TRUE(MessageDifferencer::Equals(told, request.output())) << told.DebugString();
}

// All that a server says that it can be asked for is a format that it writes, by that name.
TEST(VideoConversionTest, EveryFormatOfAFileIsKnown) {
  const v1::GetVideoCapabilitiesResponse told = ToVideoProto(engine::Capabilities(), "");
  EXPECT_THAT(told.frame_formats(),
              ElementsAre(v1::FORMAT_PNG, v1::FORMAT_JPEG, v1::FORMAT_WEBP, v1::FORMAT_RAW_RGB8));
  const bool has_webm = image::TypeOf(image::VideoFormat::kWebm).is_built_in;
  ASSERT_EQ(told.video_formats_size(),
            v1::VideoFormat_descriptor()->value_count() - (has_webm ? 1 : 2));
  for (const int format : told.video_formats()) {
    const auto file = ToSpec(FileRequest(static_cast<v1::VideoFormat>(format))).spec.video_file;
    ASSERT_TRUE(file);
    const std::string name = absl::AsciiStrToUpper(image::TypeOf(file->format).name);
    EXPECT_EQ(v1::VideoFormat_Name(format), "VIDEO_FORMAT_" + name);
  }
}

TEST(VideoConversionTest, WrongOutputsAreNamed) {
  v1::GenerateVideoRequest frames;
  frames.mutable_output()->set_playback_fps(7);
  frames.mutable_output()->set_embed_parameters(false);
  EXPECT_THAT(WrongFieldsOf(frames), ElementsAre("output.playback_fps", "output.embed_parameters"));
  v1::GenerateVideoRequest both = FileRequest(v1::VIDEO_FORMAT_WEBP);
  both.mutable_output()->set_format(v1::FORMAT_PNG);
  EXPECT_THAT(WrongFieldsOf(both), ElementsAre("output.format"));
  v1::GenerateVideoRequest lossless = FileRequest(v1::VIDEO_FORMAT_APNG);
  lossless.mutable_output()->set_quality(40);
  EXPECT_THAT(WrongFieldsOf(lossless), ElementsAre("output.quality"));
  v1::GenerateVideoRequest raw = FileRequest(v1::VIDEO_FORMAT_RAW);
  raw.mutable_output()->set_playback_fps(7);
  raw.mutable_output()->set_embed_parameters(true);
  EXPECT_THAT(WrongFieldsOf(raw), ElementsAre("output.playback_fps", "output.embed_parameters"));
  for (const double fps : {0.99, 60.5, -7.0}) {
    v1::GenerateVideoRequest speed = FileRequest(v1::VIDEO_FORMAT_WEBP);
    speed.mutable_output()->set_playback_fps(fps);
    EXPECT_THAT(WrongFieldsOf(speed), ElementsAre("output.playback_fps")) << fps;
  }
  EXPECT_THAT(WrongFieldsOf(FileRequest(static_cast<v1::VideoFormat>(99))),
              ElementsAre("output.file"));
}

class VideoEventTest : public ::testing::Test {
 protected:
  v1::VideoEvent EventOf(engine::Event event) {
    outbox_.Add(std::move(event), absl::UnixEpoch());
    const std::optional<OutgoingEvent> next = outbox_.Next();
    return next ? ToVideoEvent(*next) : v1::VideoEvent();
  }

  Outbox outbox_{"id", {.format = image::Format::kWebp, .quality = 70}};
};

TEST_F(VideoEventTest, EventsAreThoseOfAVideo) {
  EXPECT_EQ(EventOf(engine::Queued{.position = 3}).queued().position(), 3);
  const v1::VideoEvent started = EventOf(engine::Started{{64, 32, 5}});
  EXPECT_EQ(started.request_id(), "id");
  EXPECT_EQ(started.started().executed_size().width(), 64);
  EXPECT_EQ(started.started().executed_size().height(), 32);
  EXPECT_EQ(started.started().executed_size().num_frames(), 5);
  const v1::VideoProgress progress = EventOf(engine::Progress{.image_index = 1,
                                                              .stage = engine::Stage::kDecode,
                                                              .step = 2,
                                                              .total_steps = 2,
                                                              .model = "video"})
                                         .progress();
  EXPECT_EQ(progress.video_index(), 1);
  EXPECT_EQ(progress.stage(), v1::STAGE_DECODE);
  EXPECT_EQ(progress.step(), 2);
  EXPECT_EQ(progress.model(), "video");
}

TEST_F(VideoEventTest, AFrameComesInChunks) {
  const std::string bytes(kChunkBytes + 10, 'x');
  outbox_.Add(engine::Image{.index = 1, .seed = 9, .size = {64, 32}, .bytes = bytes, .frame = 3},
              absl::UnixEpoch());
  for (const int64_t offset : {int64_t{0}, static_cast<int64_t>(kChunkBytes)}) {
    const std::optional<OutgoingEvent> next = outbox_.Next();
    ASSERT_TRUE(next);
    const v1::FrameChunk chunk = ToVideoEvent(*next).frame_chunk();
    EXPECT_EQ(chunk.video_index(), 1);
    EXPECT_EQ(chunk.frame(), 3);
    EXPECT_EQ(chunk.seed(), 9u);
    EXPECT_EQ(chunk.size().height(), 32);
    EXPECT_EQ(chunk.offset(), offset);
    EXPECT_EQ(chunk.total_bytes(), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(chunk.data(), "");  // sent from where it is
  }
  EXPECT_FALSE(outbox_.Next());
}

// The first of two parts is larger than a chunk; the size is known with the last one.
TEST_F(VideoEventTest, AFileComesInChunksOfItsParts) {
  constexpr auto kFirst = static_cast<int64_t>(kChunkBytes) + 10;
  engine::Image part{.index = 1, .seed = 9, .size = {64, 32}, .bytes = std::string(kFirst, 'x')};
  part.part = {.format = image::VideoFormat::kApng, .video_frames = 5, .frames = 2};
  outbox_.Add(part, absl::UnixEpoch());
  part.bytes = "last";
  part.part->offset = kFirst;
  part.part->is_last = true;
  outbox_.Add(std::move(part), absl::UnixEpoch());
  std::vector<int64_t> offsets, totals;
  while (const std::optional<OutgoingEvent> next = outbox_.Next()) {
    const v1::VideoEvent event = ToVideoEvent(*next);
    EXPECT_FALSE(event.has_frame_chunk());
    const v1::VideoChunk& chunk = event.video_chunk();
    EXPECT_EQ(chunk.video_index(), 1);
    EXPECT_EQ(chunk.seed(), 9u);
    EXPECT_EQ(chunk.mime_type(), "image/apng");
    EXPECT_EQ(chunk.size().num_frames(), 5);
    EXPECT_EQ(chunk.size().width(), 64);
    EXPECT_EQ(chunk.data(), "");
    offsets.push_back(chunk.offset());
    totals.push_back(chunk.total_bytes());
  }
  EXPECT_THAT(offsets, ElementsAre(0, static_cast<int64_t>(kChunkBytes), kFirst));
  EXPECT_THAT(totals, ElementsAre(0, 0, kFirst + 4));
}

TEST_F(VideoEventTest, CompletedSaysWhatWasUsed) {
  engine::Completed completed;
  SetFields(FullVideo(), completed.effective);
  completed.executed_size = {576, 1024, 14};
  completed.warnings = {"a warning"};
  completed.timings.total = absl::Seconds(2);
  const v1::VideoCompleted told = EventOf(std::move(completed)).completed();
  EXPECT_EQ(told.parameters().motion_bucket_id(), 0);
  EXPECT_EQ(told.parameters().num_frames(), 14);
  EXPECT_EQ(told.parameters().output().format(), v1::FORMAT_WEBP);
  EXPECT_EQ(told.parameters().output().quality(), 70);
  EXPECT_EQ(told.executed_size().num_frames(), 14);
  EXPECT_EQ(told.timings().total().seconds(), 2);
  EXPECT_THAT(told.warnings(), ElementsAre("a warning"));
}

TEST(VideoCapabilitiesTest, ListWhatDrawsVideosAlone) {
  engine::Capabilities capabilities;
  capabilities.models = {{.component = "base"},
                         {.component = "video",
                          .default_size = {1024, 576, 25},
                          .draws_videos = true,
                          .decode_chunk = 7}};
  capabilities.buckets = {{.model = "base", .size = {64, 64}, .ready = true},
                          {.model = "video", .size = {1024, 576, 25}, .ready = true}};
  const v1::GetVideoCapabilitiesResponse told = ToVideoProto(capabilities, "");
  ASSERT_EQ(told.models_size(), 1);
  EXPECT_EQ(told.models(0).name(), "video");
  EXPECT_EQ(told.models(0).default_size().num_frames(), 25);
  EXPECT_EQ(told.models(0).default_decode_chunk_size(), 7);
  ASSERT_EQ(told.buckets_size(), 1);
  EXPECT_EQ(told.buckets(0).size().num_frames(), 25);
  EXPECT_TRUE(told.buckets(0).ready());
  EXPECT_EQ(told.max_frames(), pipeline::kMostFramesOfVideo);
  const v1::GetCapabilitiesResponse pictures = ToProto(capabilities, "");
  ASSERT_EQ(pictures.models_size(), 1);
  EXPECT_EQ(pictures.models(0).component(), "base");
  ASSERT_EQ(pictures.buckets_size(), 1);
  EXPECT_EQ(pictures.buckets(0).model(), "base");
}

}  // namespace
}  // namespace latentd::server::generation
