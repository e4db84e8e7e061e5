#include "server/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::Optional;

engine::Progress Step(int step) {
  return {.stage = engine::Stage::kBase, .step = step, .total_steps = 9};
}

engine::Image Picture(int index, size_t bytes) {
  engine::Image image{.index = index, .seed = 7u + index, .size = {64, 32}};
  std::mt19937 random(index);
  for (size_t i = 0; i < bytes; ++i) image.bytes += static_cast<char>(random());
  return image;
}

std::vector<v1::GenerateEvent> TakeAll(Outbox& outbox) {
  std::vector<v1::GenerateEvent> events;
  while (auto event = outbox.Next()) events.push_back(*std::move(event));
  return events;
}

TEST(OutboxTest, EventsKeepTheirOrderAndCarryTheRequestId) {
  Outbox outbox("id-1", {});
  outbox.Add(engine::Queued{"id-1", 3});
  outbox.Add(engine::Started{{256, 128}});
  outbox.Add(Step(1));
  outbox.Add(Picture(0, 10));
  outbox.Add(engine::Completed{.dropped_tokens = 5});
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 5u);
  for (const auto& event : events) EXPECT_EQ(event.request_id(), "id-1");
  EXPECT_EQ(events[0].queued().position(), 3);
  EXPECT_EQ(events[1].started().executed_size().height(), 128);
  EXPECT_EQ(events[2].progress().stage(), v1::STAGE_BASE);
  EXPECT_EQ(events[3].image_chunk().data().size(), 10u);
  EXPECT_EQ(events[4].completed().dropped_tokens(), 5);
}

TEST(OutboxTest, ProgressThatWaitsIsReplacedByTheNewest) {
  Outbox outbox("", {});
  for (int step = 1; step <= 8; ++step) outbox.Add(Step(step));
  const auto events = TakeAll(outbox);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].progress().step(), 8);
}

TEST(OutboxTest, ProgressThatWasTakenIsFollowedByTheNext) {
  Outbox outbox("", {});
  outbox.Add(Step(1));
  EXPECT_EQ(outbox.Next()->progress().step(), 1);
  outbox.Add(Step(2));
  EXPECT_EQ(outbox.Next()->progress().step(), 2);
}

TEST(OutboxTest, PicturesAreChunkedAndNeverDropped) {
  Outbox outbox("", {});
  const engine::Image first = Picture(0, 3 * kChunkBytes + 17);
  const engine::Image second = Picture(1, 2 * kChunkBytes);
  outbox.Add(first);
  outbox.Add(Step(5));
  outbox.Add(second);
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
  outbox.Add(Picture(0, 10));
  outbox.Add(engine::Completed{});
  EXPECT_EQ(outbox.end(), std::nullopt);
  TakeAll(outbox);
  EXPECT_THAT(outbox.end(), Optional(absl::OkStatus()));
}

TEST(OutboxTest, AFailureEndsItAndIsNoMessage) {
  Outbox outbox("", {});
  outbox.Add(engine::Failed{absl::InternalError("broken")});
  EXPECT_EQ(outbox.Next(), std::nullopt);
  ASSERT_TRUE(outbox.end().has_value());
  EXPECT_THAT(*outbox.end(), StatusIs(absl::StatusCode::kInternal, "broken"));
}

TEST(OutboxTest, ClosingLetsGoOfPicturesAndKeepsTheEnd) {
  Outbox outbox("", {});
  outbox.Add(Picture(0, 1000));
  outbox.Close();
  EXPECT_EQ(outbox.held_bytes(), 0);
  outbox.Add(Picture(1, 1000));
  EXPECT_EQ(outbox.held_bytes(), 0);
  EXPECT_EQ(outbox.Next(), std::nullopt);
  EXPECT_EQ(outbox.end(), std::nullopt);
  outbox.Add(engine::Failed{absl::CancelledError("gone")});
  ASSERT_TRUE(outbox.end().has_value());
  EXPECT_THAT(*outbox.end(), StatusIs(absl::StatusCode::kCancelled, _));
}

}  // namespace
}  // namespace latentd::server
