#include "server/generation/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/calls/event_bytes.h"  // an event is judged by the bytes that gRPC sends
#include "tests/support/status_matchers.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::Optional;

const absl::Time kNow = absl::UnixEpoch();

engine::Progress Step(int step) {
  return {.stage = engine::Stage::kSteps, .step = step, .total_steps = 9, .model = "base"};
}

engine::Image Picture(int index, size_t bytes) {
  engine::Image image{.index = index, .seed = 7u + index, .size = {64, 32}};
  std::mt19937 random(index);
  for (size_t i = 0; i < bytes; ++i) image.bytes += static_cast<char>(random());
  return image;
}

// As a client reads it.
v1::GenerateEvent Received(const OutgoingEvent& event) {
  grpc::Slice bytes;
  EXPECT_TRUE(calls::Serialize(event).DumpToSingleSlice(&bytes).ok());
  v1::GenerateEvent received;
  EXPECT_TRUE(received.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
  return received;
}

std::vector<v1::GenerateEvent> TakeAll(Outbox& outbox) {
  std::vector<v1::GenerateEvent> events;
  while (const auto event = outbox.Next()) events.push_back(Received(*event));
  return events;
}

TEST(OutboxTest, EventsKeepTheirOrderAndCarryTheRequestId) {
  Outbox outbox("id-1", {});
  outbox.Add(engine::Queued{"id-1", 3}, kNow);
  outbox.Add(engine::Started{{256, 128}}, kNow);
  outbox.Add(Step(1), kNow);
  outbox.Add(Picture(0, 10), kNow);
  engine::Completed completed{.prompt_tokens = 80,
                              .dropped_tokens = 5,
                              .guidance_stopped_after = {4, 0},
                              .skipped_rows = 9,
                              .shallow_evaluations = 5};
  completed.timings.stages = {{engine::Stage::kDecode, "refiner", absl::Seconds(2)}};
  outbox.Add(std::move(completed), kNow);
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 5u);
  for (const auto& event : events) EXPECT_EQ(event.request_id(), "id-1");
  EXPECT_EQ(events[0].queued().position(), 3);
  EXPECT_EQ(events[1].started().executed_size().height(), 128);
  EXPECT_EQ(events[2].progress().stage(), v1::STAGE_STEPS);
  EXPECT_EQ(events[2].progress().model(), "base");
  EXPECT_EQ(events[3].image_chunk().data().size(), 10u);
  EXPECT_EQ(events[4].completed().prompt_tokens(), 80);
  EXPECT_EQ(events[4].completed().dropped_tokens(), 5);
  EXPECT_THAT(events[4].completed().guidance_stopped_after(), ::testing::ElementsAre(4, 0));
  EXPECT_EQ(events[4].completed().skipped_rows(), 9);
  EXPECT_EQ(events[4].completed().shallow_evaluations(), 5);
  EXPECT_EQ(
      events[4].completed().timings().ShortDebugString(),
      "queue { } total { } stages { stage: STAGE_DECODE model: \"refiner\" time { seconds: 2 } }");
}

TEST(OutboxTest, FailingLeavesNothingButTheEnd) {
  Outbox outbox("", {});
  outbox.Add(Picture(0, 10), kNow);
  outbox.Add(engine::Completed{}, kNow);
  outbox.Fail(absl::ResourceExhaustedError(""));
  EXPECT_TRUE(TakeAll(outbox).empty());
  EXPECT_THAT(outbox.end(), Optional(StatusIs(absl::StatusCode::kResourceExhausted, _)));
}

TEST(OutboxTest, ProgressThatWaitsIsReplacedByTheNewest) {
  Outbox outbox("", {});
  for (int step = 1; step <= 8; ++step) outbox.Add(Step(step), kNow);
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].progress().step(), 8);
}

TEST(OutboxTest, ProgressThatWasTakenIsFollowedByTheNext) {
  Outbox outbox("", {});
  outbox.Add(Step(1), kNow);
  EXPECT_EQ(outbox.Next()->message.progress().step(), 1);
  outbox.Add(Step(2), kNow);
  EXPECT_EQ(outbox.Next()->message.progress().step(), 2);
}

engine::Preview Draft(int picture, int step) {
  return {.image_index = picture, .step = step, .bytes = "jpeg"};
}

TEST(OutboxTest, APreviewIsOneMessage) {
  Outbox outbox("id", {});
  outbox.Add(engine::Preview{.image_index = 1,
                             .step = 4,
                             .total_steps = 9,
                             .size = {8, 4},
                             .format = image::Format::kJpeg,
                             .bytes = "jpeg"},
             kNow);
  EXPECT_EQ(outbox.held_bytes(), 4);
  const v1::Preview preview = outbox.Next()->message.preview();
  EXPECT_EQ(preview.image_index(), 1);
  EXPECT_EQ(preview.step(), 4);
  EXPECT_EQ(preview.total_steps(), 9);
  EXPECT_EQ(preview.size().width(), 8);
  EXPECT_EQ(preview.size().height(), 4);
  EXPECT_EQ(preview.mime_type(), "image/jpeg");
  EXPECT_EQ(preview.data(), "jpeg");
  EXPECT_EQ(outbox.held_bytes(), 0);
}

TEST(OutboxTest, WhatComesOfPreviewsAndProgressReplacesWhatWaits) {
  Outbox outbox("", {});
  for (int step = 1; step <= 8; ++step) {
    outbox.Add(Step(step), kNow);
    outbox.Add(Draft(0, step), kNow);
    outbox.Add(Draft(1, step), kNow);
  }
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 3u);
  for (const auto& event : events) {
    EXPECT_EQ(event.has_progress() ? event.progress().step() : event.preview().step(), 8);
  }
}

TEST(OutboxTest, APreviewThatWaitsGoesWhenItsPictureComes) {
  Outbox outbox("", {});
  outbox.Add(Draft(0, 1), kNow);
  outbox.Add(Draft(1, 1), kNow);
  outbox.Add(Picture(0, 10), kNow);
  outbox.Add(Draft(1, 2), kNow);
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[0].has_image_chunk());
  EXPECT_EQ(events[1].preview().step(), 2);
}

TEST(OutboxTest, PicturesAreChunkedAndNeverDropped) {
  Outbox outbox("", {});
  const engine::Image first = Picture(0, 3 * kChunkBytes + 17);
  const engine::Image second = Picture(1, 2 * kChunkBytes);
  outbox.Add(first, kNow);
  outbox.Add(Step(5), kNow);
  outbox.Add(second, kNow);
  EXPECT_EQ(outbox.held_bytes(), static_cast<int64_t>(first.bytes.size() + second.bytes.size()));
  std::string bytes[2];
  for (const auto& event : TakeAll(outbox)) {
    if (!event.has_image_chunk()) continue;
    const v1::ImageChunk& chunk = event.image_chunk();
    EXPECT_LE(chunk.data().size(), size_t{1} << 20);
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(bytes[chunk.index()].size()));
    EXPECT_EQ(chunk.seed(), 7u + chunk.index());
    EXPECT_EQ(chunk.mime_type(), "image/png");
    bytes[chunk.index()] += chunk.data();
    EXPECT_LE(static_cast<int64_t>(bytes[chunk.index()].size()), chunk.total_bytes());
  }
  EXPECT_EQ(bytes[0], first.bytes);
  EXPECT_EQ(bytes[1], second.bytes);
  EXPECT_EQ(outbox.held_bytes(), 0);
}

TEST(OutboxTest, EndsWhenEverythingWasTaken) {
  Outbox outbox("", {});
  outbox.Add(Picture(0, 10), kNow);
  outbox.Add(engine::Completed{}, kNow);
  EXPECT_EQ(outbox.end(), std::nullopt);
  TakeAll(outbox);
  EXPECT_THAT(outbox.end(), Optional(absl::OkStatus()));
}

TEST(OutboxTest, AFailureEndsItAndIsNoMessage) {
  Outbox outbox("", {});
  outbox.Add(engine::Failed{absl::InternalError("broken")}, kNow);
  EXPECT_FALSE(outbox.Next().has_value());
  ASSERT_TRUE(outbox.end().has_value());
  EXPECT_THAT(*outbox.end(), StatusIs(absl::StatusCode::kInternal, "broken"));
}

TEST(OutboxTest, ClosingLetsGoOfPicturesAndKeepsTheEnd) {
  Outbox outbox("", {});
  outbox.Add(Picture(0, 1000), kNow);
  outbox.Close();
  EXPECT_EQ(outbox.held_bytes(), 0);
  outbox.Add(Picture(1, 1000), kNow);
  EXPECT_EQ(outbox.held_bytes(), 0);
  EXPECT_FALSE(outbox.Next().has_value());
  EXPECT_EQ(outbox.end(), std::nullopt);
  outbox.Add(engine::Failed{absl::CancelledError("gone")}, kNow);
  ASSERT_TRUE(outbox.end().has_value());
  EXPECT_THAT(*outbox.end(), StatusIs(absl::StatusCode::kCancelled, _));
}

TEST(OutboxTest, APictureWaitsUntilItsLastPartIsTaken) {
  Outbox outbox("id", {});
  EXPECT_EQ(outbox.oldest_picture(), absl::InfiniteFuture());
  outbox.Add(Step(1), kNow);
  outbox.Add(Picture(0, kChunkBytes + 1), kNow + absl::Seconds(1));
  outbox.Add(Picture(1, 10), kNow + absl::Seconds(2));
  EXPECT_EQ(outbox.oldest_picture(), kNow + absl::Seconds(1));
  outbox.Next();  // the step
  outbox.Next();
  EXPECT_EQ(outbox.oldest_picture(), kNow + absl::Seconds(1));
  outbox.Next();
  EXPECT_EQ(outbox.oldest_picture(), kNow + absl::Seconds(2));
  outbox.Next();
  EXPECT_EQ(outbox.oldest_picture(), absl::InfiniteFuture());
}

TEST(OutboxTest, APictureThatIsTakenIsLetGoOf) {
  Outbox outbox("id", {});
  engine::Image image = Picture(0, 2 * kChunkBytes);
  const std::weak_ptr<const void> unread = [&] {
    const auto token = std::make_shared<int>();
    image.unread = token;
    return std::weak_ptr<const void>(token);
  }();
  outbox.Add(std::move(image), kNow);
  outbox.Next();
  EXPECT_FALSE(unread.expired());
  outbox.Next();
  EXPECT_TRUE(unread.expired());
}

TEST(OutboxTest, APictureIsKeptAsLongAsItsBytesAreToBeSent) {
  Outbox outbox("id", {});
  const engine::Image image = Picture(0, 1000);
  const auto event = std::make_shared<const engine::Event>(image);
  outbox.Add(event, kNow);
  grpc::ByteBuffer bytes = calls::Serialize(*outbox.Next());
  EXPECT_EQ(event.use_count(), 2);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes.Dump(&slices).ok());
  EXPECT_EQ(reinterpret_cast<const char*>(slices.back().begin()),
            std::get<engine::Image>(*event).bytes.data());
  slices.clear();
  bytes.Clear();
  EXPECT_EQ(event.use_count(), 1);
}

TEST(OutboxTest, BeginsWhereItsClientIs) {
  const engine::Image first = Picture(0, 10), second = Picture(1, kChunkBytes + 10);
  Outbox outbox("", {}, {.pictures = 1, .bytes = 8});
  for (const engine::Image& image : {first, second, first}) outbox.Add(image, kNow);
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].image_chunk().offset(), 8);
  EXPECT_EQ(events[0].image_chunk().data() + events[1].image_chunk().data(),
            second.bytes.substr(8));
  EXPECT_EQ(events[2].image_chunk().data(), first.bytes);
}

TEST(OutboxTest, WhoClaimsToHaveMoreThanThereIsGetsNothingOfIt) {
  Outbox outbox("", {}, {.pictures = 0, .bytes = 1000});
  outbox.Add(Picture(0, 10), kNow);
  outbox.Add(Picture(1, 10), kNow);
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].image_chunk().data(), "");
  EXPECT_EQ(events[1].image_chunk().data(), Picture(1, 10).bytes);
}

}  // namespace
}  // namespace latentd::server::generation
