// Streams kept of resumable requests, for their callers, for a time.
#include "server/generation/kept_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::generation {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The events that one reader has got, in words.
struct Reading {
  std::shared_ptr<const KeptStream::Reader> reader() {
    return std::make_shared<const KeptStream::Reader>([this](SharedEvent event, absl::Time came) {
      Note(*event);
      last_came = came;
    });
  }

  void Note(const engine::Event& event) {
    if (const auto* progress = std::get_if<engine::Progress>(&event)) {
      words.push_back(absl::StrCat("step ", progress->step));
    } else if (const auto* image = std::get_if<engine::Image>(&event)) {
      words.push_back(image->bytes);
    } else if (const auto* preview = std::get_if<engine::Preview>(&event)) {
      words.push_back(absl::StrCat("preview ", preview->image_index));
    } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
      words.push_back(absl::StatusCodeToString(failed->status.code()));
      reason = GetReason(failed->status);
    } else {
      words.push_back(std::holds_alternative<engine::Started>(event) ? "started" : "completed");
    }
  }

  std::vector<std::string> words;
  std::string reason;  // the end's
  absl::Time last_came;
};

class KeptStreamsTest : public ::testing::Test {
 protected:
  // A request at work that `reading` reads.
  std::shared_ptr<KeptStream> Begin(const std::string& id, Reading& reading) {
    auto stream = streams_.Open("host", id, {}).value();
    EXPECT_OK(stream->Attach(&reading, 0, reading.reader()));
    stream->SetHandle(engine_.Submit({}, stream).value());
    streams_.Accept(*stream);
    return stream;
  }
  // One that was drawn.
  void Draw(const std::string& id, const std::string& picture, bool to_the_end) {
    Reading reading;
    const auto stream = Begin(id, reading);
    stream->OnEvent(engine::Image{.bytes = picture});
    stream->OnEvent(engine::Completed{});
    stream->Detach(&reading, to_the_end);
  }
  bool Has(const std::string& id) const { return streams_.Find("host", id).ok(); }

  FakeEngine engine_;
  latentd::testing::FakeClock clock_;
  KeptStreams streams_{engine_, clock_};
};

TEST_F(KeptStreamsTest, WhatWasKeptComesBeforeWhatComesAndOfProgressTheNewest) {
  Reading first, second;
  const auto stream = Begin("id", first);
  stream->OnEvent(engine::Started{});
  for (int step = 1; step <= 3; ++step) stream->OnEvent(engine::Progress{.step = step});
  stream->OnEvent(engine::Image{.bytes = "picture"});
  stream->Detach(&first, false);
  stream->OnEvent(engine::Progress{.step = 4});
  stream->OnEvent(engine::Image{.bytes = "other"});
  EXPECT_OK(stream->Attach(&second, 0, second.reader()));
  stream->OnEvent(engine::Completed{});
  EXPECT_THAT(first.words, ElementsAre("started", "step 1", "step 2", "step 3", "picture"));
  EXPECT_THAT(second.words, ElementsAre("started", "picture", "step 4", "other", "completed"));
}

TEST_F(KeptStreamsTest, APictureLeavesNoPreviewOfItself) {
  Reading first, second;
  const auto stream = Begin("id", first);
  stream->OnEvent(engine::Preview{.image_index = 0});
  stream->OnEvent(engine::Image{.index = 0, .bytes = "picture"});
  stream->OnEvent(engine::Preview{.image_index = 2});
  stream->OnEvent(engine::Image{.index = 1, .bytes = "other"});
  EXPECT_OK(stream->Attach(&second, 1, second.reader()));
  EXPECT_THAT(second.words, ElementsAre("picture", "preview 2", "other"));
}

TEST_F(KeptStreamsTest, FindsThePictureThatSoManyBytesEndIn) {
  Reading reading;
  const auto stream = Begin("id", reading);
  stream->OnEvent(engine::Image{.bytes = "abc"});
  stream->OnEvent(engine::Image{.bytes = "de"});
  const auto place = [&](int64_t bytes) {
    const KeptStream::Place found = stream->PlaceOf(bytes);
    return std::pair(found.pictures, found.bytes);
  };
  EXPECT_EQ(place(0), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(place(2), std::pair(int64_t{0}, int64_t{2}));
  EXPECT_EQ(place(3), std::pair(int64_t{1}, int64_t{0}));
  EXPECT_EQ(place(4), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(place(9), std::pair(int64_t{2}, int64_t{0}));
  stream->NoteSent(&reading, 1);
  stream->ReleaseSent();
  EXPECT_EQ(place(4), std::pair(int64_t{1}, int64_t{1}));  // though the first is gone
}

TEST_F(KeptStreamsTest, PicturesAreNoVideos) {
  Reading reading;
  Begin("id", reading);
  EXPECT_TRUE(absl::IsNotFound(streams_.Find("host", "id", Results::kVideos).status()));
  EXPECT_TRUE(absl::IsNotFound(streams_.Cancel("host", "id", Results::kVideos)));
  EXPECT_TRUE(Has("id"));
  EXPECT_OK(streams_.Open("host", "video", {}, Results::kVideos));
  EXPECT_FALSE(Has("video"));
  EXPECT_OK(streams_.Cancel("host", "video", Results::kVideos));
  EXPECT_OK(streams_.Open("host", "id", {}, Results::kVideos)) << "of a name that pictures have";
  EXPECT_OK(streams_.Cancel("host", "id", Results::kVideos));
  EXPECT_TRUE(Has("id"));
}

TEST_F(KeptStreamsTest, TheNewestReaderTakesOver) {
  Reading first, second;
  const auto stream = Begin("id", first);
  EXPECT_OK(stream->Attach(&second, 0, second.reader()));
  stream->Detach(&first, false);  // it is not the one that reads
  stream->OnEvent(engine::Started{});
  EXPECT_THAT(first.words, ElementsAre("ABORTED"));
  EXPECT_THAT(second.words, ElementsAre("started"));
}

TEST_F(KeptStreamsTest, AMinuteAfterNobodyReadsAnyMoreTheWorkStopsAndNothingIsHeld) {
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> unread = token;
  Reading reading;
  {
    const auto stream = Begin("id", reading);
    stream->OnEvent(engine::Image{.bytes = "picture", .unread = std::move(token)});
    clock_.Advance(10 * kKeepStreams);  // it has a reader
    streams_.DropOld();
    stream->Detach(&reading, false);
  }
  clock_.Advance(kKeepStreams - absl::Seconds(1));
  streams_.DropOld();
  EXPECT_TRUE(Has("id"));
  EXPECT_FALSE(unread.expired());
  EXPECT_EQ(streams_.held_bytes(), 7);
  clock_.Advance(absl::Seconds(1));
  streams_.DropOld();
  engine_.WaitUntilCancelled();
  EXPECT_TRUE(unread.expired());
  EXPECT_EQ(streams_.held_bytes(), 0);
  EXPECT_FALSE(Has("id"));
}

TEST_F(KeptStreamsTest, TheMinuteBeginsAnewWithEachReader) {
  Reading first, second;
  const auto stream = Begin("id", first);
  stream->Detach(&first, false);
  clock_.Advance(kKeepStreams - absl::Seconds(1));
  EXPECT_OK(stream->Attach(&second, 0, second.reader()));
  stream->Detach(&second, false);
  clock_.Advance(kKeepStreams - absl::Seconds(1));
  streams_.DropOld();
  EXPECT_TRUE(Has("id"));
}

TEST_F(KeptStreamsTest, OnlyItsCallerFindsIt) {
  Reading reading;
  Begin("id", reading);
  const absl::Status other = streams_.Find("other", "id").status();
  EXPECT_THAT(other, StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(GetReason(other), "NO_SUCH_STREAM");
  EXPECT_THAT(GetFacts(other), ElementsAre(ErrorFact{"request_id", "id"}));
  EXPECT_THAT(streams_.Cancel("other", "id"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_OK(streams_.Open("other", "id", {}));
}

TEST_F(KeptStreamsTest, ANameIsTakenAsLongAsSomebodyMayComeBack) {
  Reading reading;
  const auto stream = Begin("id", reading);
  const absl::Status taken = streams_.Open("host", "id", {}).status();
  EXPECT_THAT(taken, StatusIs(absl::StatusCode::kAlreadyExists, _));
  EXPECT_EQ(GetReason(taken), "STREAM_EXISTS");
  stream->OnEvent(engine::Completed{});
  stream->Detach(&reading, false);
  EXPECT_FALSE(streams_.Open("host", "id", {}).ok());
  EXPECT_OK(stream->Attach(&reading, 0, reading.reader()));
  stream->Detach(&reading, true);
  EXPECT_OK(streams_.Open("host", "id", {}));
}

TEST_F(KeptStreamsTest, OneThatFailedGivesWay) {
  Reading reading;
  Begin("id", reading)->OnEvent(engine::Failed{absl::InternalError("broken")});
  EXPECT_OK(streams_.Open("host", "id", {}));
}

TEST_F(KeptStreamsTest, WhatTheEngineRefusesTakesNoPlace) {
  Draw("id", "picture", /*to_the_end=*/true);
  const auto before = streams_.Find("host", "id").value();
  const auto refused = streams_.Open("host", "id", {}).value();
  EXPECT_EQ(streams_.Find("host", "id").value(), refused);
  streams_.Refuse(*refused);
  EXPECT_EQ(streams_.Find("host", "id").value(), before);
  Reading reading;
  EXPECT_OK(before->Attach(&reading, 0, reading.reader()));
  EXPECT_THAT(reading.words, ElementsAre("picture", "completed"));
  streams_.Refuse(*streams_.Open("host", "another", {}).value());
  EXPECT_FALSE(Has("another"));
}

TEST_F(KeptStreamsTest, CancellingStopsTheWorkAndWhoReadsIsTold) {
  Reading reading;
  Begin("id", reading);
  EXPECT_OK(streams_.Cancel("host", "id"));
  engine_.WaitUntilCancelled();
  EXPECT_THAT(reading.words, ElementsAre("CANCELLED"));
  EXPECT_EQ(reading.reason, "STREAM_DROPPED");
  EXPECT_FALSE(Has("id"));
}

TEST_F(KeptStreamsTest, WhoFindsItJustBeforeItIsDroppedIsToldSo) {
  Draw("id", "picture", /*to_the_end=*/false);
  const auto found = streams_.Find("host", "id").value();
  EXPECT_OK(streams_.Cancel("host", "id"));
  Reading reading;
  EXPECT_OK(found->Attach(&reading, 0, reading.reader()));
  EXPECT_THAT(reading.words, ElementsAre("NOT_FOUND"));
}

TEST_F(KeptStreamsTest, OneThatIsCancelledBeforeItsHandleIsKnownStopsToo) {
  const auto stream = streams_.Open("host", "id", {}).value();
  EXPECT_OK(streams_.Cancel("host", "id"));
  stream->SetHandle(engine_.Submit({}, stream).value());
  engine_.WaitUntilCancelled();
}

TEST_F(KeptStreamsTest, WhatWasReadLeavesFirstWhereMemoryIsWanted) {
  Draw("read", "picture", /*to_the_end=*/true);
  Draw("unread", "picture", /*to_the_end=*/false);
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_FALSE(Has("read"));
  EXPECT_TRUE(Has("unread"));
  clock_.Advance(absl::Seconds(60));
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_FALSE(Has("unread"));
}

TEST_F(KeptStreamsTest, PicturesThatWereSentLeaveWhereMemoryIsWantedAndTheWorkGoesOn) {
  std::vector<std::shared_ptr<int>> tokens = {std::make_shared<int>(), std::make_shared<int>()};
  const std::weak_ptr<int> first = tokens[0], second = tokens[1];
  Reading reading, other;
  const auto stream = Begin("id", reading);
  for (auto& token : tokens) {
    stream->OnEvent(engine::Image{.bytes = "picture", .unread = std::move(token)});
  }
  stream->NoteSent(&other, 2);  // it is not the one that reads
  stream->NoteSent(&reading, 1);
  EXPECT_FALSE(first.expired());
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
  stream->Detach(&reading, false);
  EXPECT_EQ(streams_.held_bytes(), 7);
  EXPECT_THAT(stream->Attach(&other, 0, other.reader()), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(other.words, IsEmpty());
  EXPECT_OK(stream->Attach(&other, 1, other.reader()));
  EXPECT_THAT(other.words, ElementsAre("", "picture"));
  stream->OnEvent(engine::Completed{});
  EXPECT_THAT(other.words, ElementsAre("", "picture", "completed"));
}

TEST_F(KeptStreamsTest, WhoComesBackTellsWhatWasSent) {
  Reading reading, other;
  const auto stream = Begin("id", reading);
  stream->OnEvent(engine::Image{.bytes = "picture"});
  stream->NoteSent(&reading, 1);
  EXPECT_OK(stream->Attach(&other, 0, other.reader()));
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_OK(stream->Attach(&reading, 0, reading.reader()));
}

TEST_F(KeptStreamsTest, APictureIsAsOldForWhoComesBackAndLeavesWithItsStream) {
  Reading reading, other;
  const auto stream = Begin("id", reading);
  stream->OnEvent(engine::Image{.bytes = "picture"});
  const absl::Time came = clock_.Monotonic();
  stream->Detach(&reading, false);
  clock_.Advance(absl::Seconds(50));
  EXPECT_OK(stream->Attach(&other, 0, other.reader()));
  EXPECT_EQ(other.last_came, came);
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_TRUE(Has("id"));
  clock_.Advance(absl::Seconds(10));
  streams_.MakeRoom(absl::Seconds(60));
  EXPECT_FALSE(Has("id"));
  engine_.WaitUntilCancelled();
}

TEST_F(KeptStreamsTest, OfWhatWasReadTheOldestLeaveAboveALimit) {
  const std::string half(kMostReadBytes / 2, 'p');
  for (const char* id : {"first", "second", "third"}) {
    Draw(id, half, /*to_the_end=*/true);
    clock_.Advance(absl::Seconds(1));
  }
  Draw("unread", half, /*to_the_end=*/false);
  streams_.DropOld();
  EXPECT_FALSE(Has("first"));
  EXPECT_TRUE(Has("second") && Has("third") && Has("unread"));
}

TEST_F(KeptStreamsTest, AreNotMoreThanALimit) {
  Reading reading;
  Begin("at work", reading);
  for (size_t i = 1; i <= kMostKeptStreams; ++i) {
    Draw(absl::StrCat(i), "", /*to_the_end=*/false);
    clock_.Advance(absl::Milliseconds(1));
    if (i + 1 != kMostKeptStreams) continue;
    EXPECT_FALSE(streams_.Open("host", "at work", {}).ok());
    streams_.Refuse(*streams_.Open("host", "refused", {}).value());
    EXPECT_TRUE(Has("1"));
  }
  EXPECT_TRUE(Has("at work"));
  EXPECT_FALSE(Has("1"));
  EXPECT_TRUE(Has("2"));
}

}  // namespace
}  // namespace latentd::server::generation
