#include "server/http/videos/video_jobs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "server/generation/kept_streams.h"
#include "tests/server/completed_video.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

class VideoJobsTest : public ::testing::Test {
 protected:
  ~VideoJobsTest() override { jobs_.EndAll(); }

  std::shared_ptr<VideoJob> Add() {
    EXPECT_OK(jobs_.CheckRoom());
    auto job = std::make_shared<VideoJob>(
        generation::CallEnvironment{engine_, clock_, calls_, kept_},
        generation::Client{.caller = "me"}, std::vector<ServedModel>(), jobs_.limits().bytes);
    EXPECT_OK(job->Enter());
    EXPECT_OK(job->Start({.method = "POST", .body = R"({"image": "QUJD"})"}));
    jobs_.Add("me", job);
    return job;
  }
  void Send(size_t number, const std::string& bytes, bool ends = true) {
    engine_.Send(engine::Image{.bytes = bytes, .part = engine::VideoPart{.is_last = ends}}, number);
    if (ends) engine_.Send(CompletedVideo(), number);
    clock_.Advance(absl::Seconds(1));
  }
  bool Has(const VideoJob& job) { return jobs_.Find("me", job.id()).ok(); }

  FakeEngine engine_;
  testing::FakeClock clock_;
  generation::ActiveCalls calls_;
  generation::KeptStreams kept_{engine_, clock_};
  VideoJobs jobs_{clock_, {.bytes = 1000, .time = absl::Minutes(10), .ended = 4}};
};

TEST_F(VideoJobsTest, WhatEndedFirstGivesWayAndNothingInWork) {
  const auto working = Add(), first = Add(), second = Add(), third = Add();
  Send(0, std::string(300, 'w'), /*ends=*/false);
  Send(2, std::string(300, 'b'));
  Send(1, std::string(300, 'a'));
  jobs_.DropOld();
  EXPECT_TRUE(Has(*second));
  Send(3, std::string(300, 'c'));
  jobs_.DropOld();
  EXPECT_FALSE(Has(*second)) << "it ended before the first one";
  EXPECT_TRUE(Has(*first));
  EXPECT_TRUE(Has(*third));
  EXPECT_TRUE(Has(*working));
}

TEST_F(VideoJobsTest, AFileOnItsWayCountsThoughItIsDropped) {
  const auto fetched = Add();
  Send(0, std::string(900, 'a'));
  auto file = fetched->state().file;
  const auto next = Add();
  Send(1, std::string(900, 'b'));
  jobs_.DropOld();
  EXPECT_FALSE(Has(*fetched));
  EXPECT_EQ(jobs_.held_bytes(), 1800);
  const absl::Status room = jobs_.CheckRoom();
  EXPECT_EQ(GetReason(room), "TOO_MANY_VIDEOS");
  EXPECT_TRUE(GetRetryDelay(room).has_value());
}

TEST_F(VideoJobsTest, ThereIsRoomAsLongAsAByteIsFree) {
  const auto working = Add();
  Send(0, std::string(999, 'a'), /*ends=*/false);
  EXPECT_OK(jobs_.CheckRoom());
  Send(0, "b", /*ends=*/false);
  EXPECT_EQ(GetReason(jobs_.CheckRoom()), "TOO_MANY_VIDEOS");
  EXPECT_TRUE(Has(*working));
}

TEST_F(VideoJobsTest, AFileThatFillsAllOfItIsKeptUntilTheNextVideoComes) {
  const std::string id = Add()->id();
  Send(0, std::string(1000, 'a'));
  jobs_.DropOld();
  EXPECT_OK(jobs_.Find("me", id));
  EXPECT_OK(jobs_.CheckRoom());
  EXPECT_FALSE(jobs_.Find("me", id).ok());
}

TEST_F(VideoJobsTest, AFileThatIsTooLargeFailsAtOnce) {
  const auto job = Add();
  Send(0, std::string(600, 'a'), /*ends=*/false);
  EXPECT_FALSE(job->use().is_over);
  Send(0, std::string(600, 'b'), /*ends=*/false);
  EXPECT_EQ(job->state().status, VideoJob::Status::kFailed);
  EXPECT_EQ(GetReason(job->state().error), "FILE_TOO_LARGE");
  EXPECT_EQ(job->use().bytes, 0);
  engine_.WaitUntilCancelled();
}

TEST_F(VideoJobsTest, FailuresAreForgottenToo) {
  std::vector<std::shared_ptr<VideoJob>> jobs;
  for (size_t i = 0; i < 6; ++i) {
    jobs.push_back(Add());
    engine_.Send(engine::Failed{absl::InternalError("broken")}, i);
    clock_.Advance(absl::Seconds(1));
  }
  jobs_.DropOld();
  EXPECT_EQ(jobs_.Of("me").size(), 4u);
  EXPECT_FALSE(Has(*jobs[1]));
  EXPECT_TRUE(Has(*jobs[2]));
  clock_.Advance(absl::Minutes(10) - absl::Seconds(3));
  jobs_.DropOld();
  EXPECT_FALSE(Has(*jobs[3]));
  EXPECT_TRUE(Has(*jobs[4]));
}

TEST_F(VideoJobsTest, WhatTheServerCancelsEnds) {
  const auto job = Add();
  calls_.CancelAll();
  jobs_.DropOld();
  EXPECT_EQ(job->state().status, VideoJob::Status::kFailed);
  engine_.WaitUntilCancelled();
  EXPECT_TRUE(calls_.WaitUntilEmpty(absl::ZeroDuration()));
}

}  // namespace
}  // namespace latentd::server::http
