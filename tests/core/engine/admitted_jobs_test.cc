// Membership of jobs, the loop's view of them, and events that wake it.
#include "core/engine/loop/admitted_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int kPlaces = 3;

// The test is the loop.
class AdmittedJobsTest : public LoopTest {
 protected:
  enum class Graphs : uint8_t { kReady, kMissing };

  std::shared_ptr<Job> JobOf(int pictures = 1, absl::Time deadline = absl::InfiniteFuture()) {
    GenerateSpec spec = SmallSpec();
    spec.picture.num_images_per_prompt = pictures;
    spec.deadline = deadline;
    const pipeline::SharedPlan plan = model_->pipeline->Resolve(spec.picture).value();
    return std::make_shared<Job>(jobs_.NextHandle(), plan, std::move(spec),
                                 std::make_shared<RecordingSink>(), clock_.Monotonic());
  }
  std::vector<std::unique_ptr<pipeline::Picture>> PicturesOf(const Job& job) {
    return model_->pipeline->Start(job.plan).value();
  }
  std::shared_ptr<Job> Add(Graphs graphs = Graphs::kReady, int pictures = 1,
                           absl::Time deadline = absl::InfiniteFuture()) {
    std::shared_ptr<Job> job = JobOf(pictures, deadline);
    if (graphs == Graphs::kReady) job->pictures = PicturesOf(*job);
    EXPECT_OK(jobs_.Add(job, 0, queued_));
    return job;
  }
  AdmittedJobs::Work Next(bool may_enqueue = true) {
    return jobs_.Next(may_enqueue, /*idle=*/false, watch_);
  }
  AdmittedJobs::Work AwaitNext() { return jobs_.Next(/*may_enqueue=*/true, /*idle=*/true, watch_); }
  // A job of which a unit has been given.
  std::shared_ptr<Job> Begun() {
    std::shared_ptr<Job> job = Add();
    EXPECT_TRUE(Next().unit.has_value());
    return job;
  }
  bool WaitToBegin() const {
    return jobs_.WaitToBegin([] { return true; });
  }
  bool End(const Job& job) { return jobs_.Remove(job, absl::OkStatus()); }
  // The refusal of one more job, which leaves at once if it is admitted.
  absl::Status Refusal() {
    const auto job = JobOf();
    Queued queued;
    absl::Status refusal = jobs_.Add(job, 0, queued);
    if (refusal.ok()) End(*job);
    return refusal;
  }

  std::atomic<bool> may_begin_ = true;
  Queued queued_;  // the last added job's
  std::vector<std::pair<const Job*, CancelCause>> ended_early_;
  ThreadWatch watch_{"loop", clock_};
  AdmittedJobs jobs_{
      {.pictures = kPlaces},
      {.may_begin = [this] { return may_begin_.load(); },
       .end_early = [this](const std::shared_ptr<Job>& job,
                           CancelCause cause) { ended_early_.emplace_back(job.get(), cause); }},
      metrics_,
      clock_};
};

TEST_F(AdmittedJobsTest, AJobIsAMemberFromItsAdmissionToItsEnd) {
  const auto first = Add(), second = Add(Graphs::kReady, /*pictures=*/2);
  EXPECT_EQ(queued_.position, 1);
  EXPECT_EQ(jobs_.backlog().pictures, 3);
  EXPECT_TRUE(jobs_.Contains(*second) && jobs_.IsWanted(*second));
  EXPECT_TRUE(End(*second));
  EXPECT_FALSE(jobs_.Contains(*second) || jobs_.IsWanted(*second));
  EXPECT_FALSE(End(*second));
  EXPECT_EQ(jobs_.backlog().pictures, 1);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 1);
}

TEST_F(AdmittedJobsTest, OfAJobThatIsRefusedNothingIsTaken) {
  const auto member = Add(Graphs::kReady, kPlaces - 1);
  const auto refused = JobOf(/*pictures=*/2);
  Queued queued;
  EXPECT_EQ(GetReason(jobs_.Add(refused, 0, queued)), "QUEUE_FULL");
  EXPECT_FALSE(jobs_.Contains(*refused));
  EXPECT_FALSE(End(*refused));
  EXPECT_EQ(jobs_.backlog().pictures, kPlaces - 1);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 1);
}

TEST_F(AdmittedJobsTest, WhatHasNotBegunEndsEarlyOnceAndForTheFirstCause) {
  const auto job = Add();
  jobs_.Cancel(CancelCause::kOutOfMemory, job->handle);
  jobs_.Cancel(CancelCause::kClient, job->handle);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(job.get(), CancelCause::kOutOfMemory)));
  EXPECT_TRUE(jobs_.Contains(*job));
  EXPECT_FALSE(jobs_.IsWanted(*job));
}

TEST_F(AdmittedJobsTest, TheLoopEndsWhatHasBegunBeforeAnythingElse) {
  const auto job = Begun();
  Add();
  jobs_.Cancel(CancelCause::kClient, job->handle);
  EXPECT_THAT(ended_early_, IsEmpty());
  for (bool may_enqueue : {false, true}) {
    const AdmittedJobs::Work work = Next(may_enqueue);
    EXPECT_EQ(work.cancelled, job);
    EXPECT_EQ(work.cause, CancelCause::kClient);
    EXPECT_FALSE(work.unit.has_value());
  }
  EXPECT_TRUE(End(*job));
  EXPECT_EQ(Next().cancelled, nullptr);
}

TEST_F(AdmittedJobsTest, AUnitComesWithItsPicturesAndOnlyWhereOneMayBeEnqueued) {
  const auto job = Add();
  EXPECT_FALSE(Next(/*may_enqueue=*/false).unit.has_value());
  const AdmittedJobs::Work work = Next();
  ASSERT_TRUE(work.unit.has_value());
  EXPECT_EQ(work.unit->kind, batching::UnitKind::kText);
  ASSERT_EQ(work.pictures.size(), 1u);
  EXPECT_EQ(work.pictures[0].job, job);
  EXPECT_EQ(work.unit->pictures[0], job->ids[0]);
}

TEST_F(AdmittedJobsTest, NoneBeginsWithoutRoomAndWhatHasBegunGoesOn) {
  const auto begun = Begun();
  Add();
  may_begin_ = false;
  EXPECT_EQ(Next().pictures.front().job, begun);
  EXPECT_FALSE(WaitToBegin());
  jobs_.Remove(JobPicture{begun, 0});
  EXPECT_TRUE(jobs_.Contains(*begun));
  EXPECT_FALSE(Next().unit.has_value());
  EXPECT_TRUE(WaitToBegin());
  EXPECT_FALSE(jobs_.WaitToBegin([] { return false; }));
}

TEST_F(AdmittedJobsTest, AJobWithoutPicturesWaitsForThem) {
  const auto job = Add(Graphs::kMissing);
  EXPECT_FALSE(Next().unit.has_value());
  EXPECT_FALSE(WaitToBegin());
  jobs_.Begin(*job, PicturesOf(*job));
  EXPECT_TRUE(Next().unit.has_value());
}

TEST_F(AdmittedJobsTest, PicturesOfAJobThatHasEndedAreDropped) {
  const auto job = Add(Graphs::kMissing);
  End(*job);
  jobs_.Begin(*job, PicturesOf(*job));
  EXPECT_THAT(job->pictures, IsEmpty());
  EXPECT_FALSE(Next().unit.has_value());
}

TEST_F(AdmittedJobsTest, StateCountsFromTheStartToTheEnd) {
  const auto started = Begun(), waiting = Add();
  EXPECT_EQ(jobs_.state_bytes(), 0);
  jobs_.Started(*started);
  EXPECT_EQ(jobs_.state_bytes(), started->state_bytes());
  End(*waiting);
  EXPECT_EQ(jobs_.state_bytes(), started->state_bytes());
  End(*started);
  EXPECT_EQ(jobs_.state_bytes(), 0);
}

TEST_F(AdmittedJobsTest, WhoMovesUpIsToldOnce) {
  const auto first = Add(), second = Add();
  EXPECT_THAT(jobs_.ChangedProspects(), IsEmpty());  // both were told when they came
  End(*first);
  const AdmittedJobs::Prospects changed = jobs_.ChangedProspects();
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_EQ(changed[0].first, second);
  EXPECT_EQ(changed[0].second.position, 0);
  End(*Add());
  EXPECT_THAT(jobs_.ChangedProspects(), IsEmpty());
}

TEST_F(AdmittedJobsTest, ADrainWaitsForThoseThatEndInTime) {
  const auto job = Add();
  std::thread drain([&] { jobs_.Drain(absl::InfiniteFuture()); });
  while (!absl::IsUnavailable(Refusal())) std::this_thread::yield();
  EXPECT_TRUE(jobs_.IsWanted(*job));
  End(*job);
  drain.join();
  EXPECT_THAT(ended_early_, IsEmpty());
}

TEST_F(AdmittedJobsTest, ADrainCancelsTheRestAndWaitsForThemToo) {
  const auto begun = Begun(), waiting = Add();
  std::thread drain([&] { jobs_.Drain(clock_.Monotonic() + absl::Milliseconds(1)); });
  while (jobs_.IsWanted(*begun) || jobs_.IsWanted(*waiting)) std::this_thread::yield();
  EXPECT_EQ(GetReason(Refusal()), "DRAINING");
  EXPECT_THAT(ended_early_, ElementsAre(Pair(waiting.get(), CancelCause::kDrain)));
  End(*waiting);
  EXPECT_EQ(Next().cause, CancelCause::kDrain);
  EXPECT_TRUE(End(*begun));
  drain.join();
}

TEST_F(AdmittedJobsTest, AFaultEndsAllAndAdmitsNone) {
  const auto begun = Begun(), waiting = Add();
  jobs_.Lose();  // does not wait
  EXPECT_THAT(ended_early_, UnorderedElementsAre(Pair(waiting.get(), CancelCause::kDeviceFault),
                                                 Pair(begun.get(), CancelCause::kDeviceFault)));
  EXPECT_FALSE(jobs_.IsWanted(*begun));
  EXPECT_EQ(GetReason(Refusal()), "DEVICE_FAULT");
  End(*waiting);
  EXPECT_EQ(Next().cause, CancelCause::kDeviceFault);
}

// Another thread ends what a device that failed has begun, while its loop is about to enqueue it.
TEST_F(AdmittedJobsTest, AJobThatHasEndedDoesNotStart) {
  const auto job = Begun();
  End(*job);
  jobs_.Started(*job);
  EXPECT_FALSE(job->started);
  EXPECT_EQ(jobs_.state_bytes(), 0);
}

TEST_F(AdmittedJobsTest, AnIdleLoopDoesNotWaitWhereThereIsSomethingToDo) {
  const auto begun = Begun();
  EXPECT_TRUE(AwaitNext().unit.has_value());
  End(*begun);
  const auto job = Add(Graphs::kMissing);
  jobs_.Cancel(CancelCause::kClient, job->handle);
  EXPECT_EQ(AwaitNext().cancelled, job);
  End(*job);
  jobs_.Stop();
  EXPECT_TRUE(AwaitNext().stop);
}

TEST_F(AdmittedJobsTest, AnIdleLoopWakesForWhoComesAndForRoom) {
  may_begin_ = false;
  std::thread loop([&] {
    while (!AwaitNext().unit.has_value()) continue;
  });
  Add();
  may_begin_ = true;
  jobs_.Wake();
  loop.join();
}

TEST_F(AdmittedJobsTest, WhoIsLateIsCancelledByTheLoop) {
  const auto job = Add(Graphs::kMissing, /*pictures=*/1, clock_.Monotonic() + absl::Seconds(10));
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(AwaitNext().cause, CancelCause::kDeadline);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(job.get(), CancelCause::kDeadline)));
}

TEST_F(AdmittedJobsTest, ThoseAreLateWhoseDeadlineHasPassed) {
  const auto with = [this](int seconds) {
    return Add(Graphs::kMissing, 1, clock_.Monotonic() + absl::Seconds(seconds));
  };
  const auto ended = with(5), later = with(20), late = with(10);
  End(*ended);
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(AwaitNext().cancelled, late);
  End(*late);
  EXPECT_EQ(Next().cancelled, nullptr);
  EXPECT_TRUE(jobs_.IsWanted(*later));
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(AwaitNext().cancelled, later);
}

TEST_F(AdmittedJobsTest, ALoopThatWaitsForItsTimeHearsOfACancellationUntilThen) {
  const auto job = Begun();
  jobs_.AwaitCancellation(clock_.Monotonic(), watch_);
  std::thread loop([&] { jobs_.AwaitCancellation(absl::InfiniteFuture(), watch_); });
  jobs_.Cancel(CancelCause::kClient, job->handle);
  loop.join();
}

// The one that was cancelled has gone; the other one is late after that time, on the real clock.
TEST_F(AdmittedJobsTest, ALoopThatWaitsForItsTimeHearsOfADeadlineUntilThen) {
  constexpr absl::Duration kLeft = absl::Milliseconds(10);
  const auto job = Begun();
  jobs_.Cancel(CancelCause::kClient, job->handle);
  End(*job);
  Add(Graphs::kReady, /*pictures=*/1, clock_.Monotonic() + kLeft);
  const absl::Time begin = SystemClock().Monotonic();
  jobs_.AwaitCancellation(absl::InfiniteFuture(), watch_);
  EXPECT_GE(SystemClock().Monotonic() - begin, kLeft / 2);
}

// Jobs that the first of two devices has begun, whose loop says nothing more.
class LostJobsTest : public AdmittedJobsTest {
 protected:
  std::shared_ptr<Job> BegunOnFirst() {
    std::shared_ptr<Job> job = JobOf();
    job->pictures = PicturesOf(*job);
    EXPECT_OK(two_.Add(job, 0, queued_));
    const auto work = two_.Next(/*may_enqueue=*/true, /*idle=*/false, watch_);
    EXPECT_TRUE(work.unit.has_value());
    return job;
  }

  AdmittedJobs two_{
      {.devices = 2, .pictures = 2 * kPlaces},
      {.may_begin = [] { return true; },
       .end_early = [this](const std::shared_ptr<Job>& job,
                           CancelCause cause) { ended_early_.emplace_back(job.get(), cause); }},
      metrics_,
      clock_};
};

TEST_F(LostJobsTest, WhatItDrawsEndsOnceAndForTheFirstCause) {
  const auto job = BegunOnFirst();
  two_.Lose(0);
  two_.Lose(0);
  two_.Cancel(CancelCause::kClient, job->handle);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(job.get(), CancelCause::kDeviceLost)));
}

TEST_F(LostJobsTest, WhatWasCancelledBeforeEndsAsThat) {
  const auto job = BegunOnFirst();
  two_.Cancel(CancelCause::kClient, job->handle);
  EXPECT_THAT(ended_early_, IsEmpty());
  two_.Lose(0);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(job.get(), CancelCause::kClient)));
}

TEST_F(LostJobsTest, WhatIsDrawnAndNotEncodedGoesOn) {
  const auto job = BegunOnFirst();
  two_.Remove(JobPicture{job, 0});
  const auto cancelled = BegunOnFirst();
  two_.Remove(JobPicture{cancelled, 0});
  two_.Lose(0);
  EXPECT_THAT(ended_early_, IsEmpty());
  EXPECT_TRUE(two_.IsWanted(*job));
  two_.Cancel(CancelCause::kClient, cancelled->handle);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(cancelled.get(), CancelCause::kClient)));
  ended_early_.clear();
  two_.Remove(*cancelled, absl::CancelledError());
  two_.Lose(1);
  EXPECT_THAT(ended_early_, ElementsAre(Pair(job.get(), CancelCause::kDeviceFault)));
}

}  // namespace
}  // namespace latentd::engine
