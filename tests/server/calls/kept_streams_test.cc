// What is kept of resumable requests, for whom, and for how long.
#include "server/calls/kept_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::calls {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;

// What one reader has got, in words.
struct Reading {
  std::shared_ptr<const KeptStream::Reader> reader() {
    return std::make_shared<const KeptStream::Reader>([this](SharedEvent event) { Note(*event); });
  }

  void Note(const engine::Event& event) {
    if (const auto* progress = std::get_if<engine::Progress>(&event)) {
      words.push_back(absl::StrCat("step ", progress->step));
    } else if (const auto* image = std::get_if<engine::Image>(&event)) {
      words.push_back(image->bytes);
    } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
      words.push_back(absl::StatusCodeToString(failed->status.code()));
    } else {
      words.push_back(std::holds_alternative<engine::Started>(event) ? "started" : "completed");
    }
  }

  std::vector<std::string> words;
};

class KeptStreamsTest : public ::testing::Test {
 protected:
  // A request at work that `reading` reads.
  std::shared_ptr<KeptStream> Begin(const std::string& id, Reading& reading) {
    auto stream = streams_.Open("host", id, {}).value();
    stream->Attach(&reading, reading.reader());
    stream->SetHandle(engine_.Submit({}, stream).value());
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
  stream->Attach(&second, second.reader());
  stream->OnEvent(engine::Completed{});
  EXPECT_THAT(first.words, ElementsAre("started", "step 1", "step 2", "step 3", "picture"));
  EXPECT_THAT(second.words, ElementsAre("started", "picture", "step 4", "other", "completed"));
}

TEST_F(KeptStreamsTest, TheNewestReaderTakesOver) {
  Reading first, second;
  const auto stream = Begin("id", first);
  stream->Attach(&second, second.reader());
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
    clock_.Advance(10 * kKeepStreams);  // somebody reads
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
  stream->Attach(&second, second.reader());
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
  stream->Attach(&reading, reading.reader());
  stream->Detach(&reading, true);
  EXPECT_OK(streams_.Open("host", "id", {}));
}

TEST_F(KeptStreamsTest, OneThatFailedGivesWay) {
  Reading reading;
  Begin("id", reading)->OnEvent(engine::Failed{absl::InternalError("broken")});
  EXPECT_OK(streams_.Open("host", "id", {}));
}

TEST_F(KeptStreamsTest, CancellingStopsTheWorkAndWhoReadsIsTold) {
  Reading reading;
  Begin("id", reading);
  EXPECT_OK(streams_.Cancel("host", "id"));
  engine_.WaitUntilCancelled();
  EXPECT_THAT(reading.words, ElementsAre("CANCELLED"));
  EXPECT_FALSE(Has("id"));
}

TEST_F(KeptStreamsTest, WhoFindsItJustBeforeItIsDroppedIsToldSo) {
  Draw("id", "picture", /*to_the_end=*/false);
  const auto found = streams_.Find("host", "id").value();
  EXPECT_OK(streams_.Cancel("host", "id"));
  Reading reading;
  found->Attach(&reading, reading.reader());
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
  }
  EXPECT_TRUE(Has("at work"));
  EXPECT_FALSE(Has("1"));
  EXPECT_TRUE(Has("2"));
}

}  // namespace
}  // namespace latentd::server::calls
