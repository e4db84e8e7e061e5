// The loop and its encoder, one made to meet the other at the worst moment.
#include "core/engine/loop/picture_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::testing::_;

class PictureLoopTest : public LoopTest {};

// The loop has its threads before there is work to lose.
TEST_F(PictureLoopTest, ItsThreadHasBegunBeforeItIsMade) {
  std::thread::id began;
  PictureLoop loop({.begin_thread = [&] { began = std::this_thread::get_id(); }}, device::Host(),
                   metrics_, clock_);
  EXPECT_NE(began, std::thread::id());
  EXPECT_NE(began, std::this_thread::get_id());
}

TEST_F(PictureLoopTest, FailsTheRequestWhenAPictureCannotBeEncodedWhileASiblingRuns) {
  absl::Notification encoding;
  absl::Notification sibling_runs;
  const auto fail_once = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                             const image::RunParts& run_parts) -> absl::StatusOr<Image> {
    if (encoding.HasBeenNotified()) return EncodeImage(job, index, seed, pixels, run_parts);
    encoding.Notify();
    sibling_runs.WaitForNotification();
    return absl::ResourceExhaustedError("no memory");
  };
  PictureLoop loop({.encode = fail_once}, device::Host(), metrics_, clock_);
  bool decoded = false;  // the first picture; the loop's thread alone knows
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    decoded |= progress != nullptr && progress->stage == Stage::kDecode;
  });
  // The sibling is in its first run from before the encoder fails until the request has ended.
  model_->on_run.enqueue = [&] {
    if (!decoded || sibling_runs.HasBeenNotified()) return;
    encoding.WaitForNotification();
    sibling_runs.Notify();
    sink->WaitForEnd();
  };
  ASSERT_OK(loop.Admit(Request(loop, sink, /*pictures=*/2), 0));
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_THAT(failed[0].status, StatusIs(absl::StatusCode::kResourceExhausted, _));

  EXPECT_EQ(Only<Completed>(RunOn(loop)).size(), 1u);
  EXPECT_EQ(loop.state_bytes(), 0);
}

TEST_F(PictureLoopTest, RunsNoFurtherUnitOfACancelledRequest) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  std::shared_ptr<Job> job;
  int after_cancel = 0;
  bool cancelled = false;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps || progress->step != 3) return;
    loop.Cancel(job->handle);
    cancelled = true;
  });
  model_->on_run.enqueue = [&] { after_cancel += cancelled; };
  job = Request(loop, sink, /*pictures=*/2, /*steps=*/150);
  ASSERT_OK(loop.Admit(job, 0));
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(failed[0].status));
  EXPECT_EQ(after_cancel, 0);
  EXPECT_EQ(Count(metrics::kSteps), 3);
  EXPECT_EQ(loop.state_bytes(), 0);
  EXPECT_EQ(Count(metrics::kQueueDepth), 0);
}

// On a CPU a unit can take minutes.
TEST_F(PictureLoopTest, ARequestThatWaitsEndsWhileAUnitOfAnotherRuns) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  absl::Notification runs;
  absl::Notification go_on;
  model_->on_run.enqueue = [&] {
    if (runs.HasBeenNotified()) return;
    runs.Notify();
    go_on.WaitForNotification();
  };
  const auto running = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, running), 0));
  runs.WaitForNotification();
  const auto waiting = std::make_shared<RecordingSink>();
  std::shared_ptr<Job> job = Request(loop, waiting, /*pictures=*/2);
  ASSERT_OK(loop.Admit(job, 0));
  loop.Cancel(job->handle);
  const auto failed = Only<Failed>(waiting->WaitForEnd());
  EXPECT_FALSE(go_on.HasBeenNotified());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(failed[0].status));
  EXPECT_EQ(loop.backlog().pictures, 1);
  EXPECT_EQ(Count(metrics::kRequestsCancelled), 1);
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(running->WaitForEnd()).size(), 1u);
}

// Its sink holds what it needs to hear of the end.
TEST_F(PictureLoopTest, ARequestMayBeCancelledWhileItHearsOfItsPlace) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  std::shared_ptr<Job> job;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    if (std::holds_alternative<Queued>(event)) loop.Cancel(job->handle);
  });
  job = Request(loop, sink);
  ASSERT_OK(loop.Admit(job, 0));
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
}

TEST_F(PictureLoopTest, CancelsAtTheNextUnitWhenADrainHasNoTimeLeft) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  absl::Notification runs;
  absl::Notification draining;
  model_->on_run.enqueue = [&] {
    if (runs.HasBeenNotified()) return;
    runs.Notify();
    draining.WaitForNotification();
  };
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink, /*pictures=*/1, /*steps=*/150), 0));
  runs.WaitForNotification();
  std::thread drain([&] { loop.Drain(clock_.Monotonic()); });
  // Refused as soon as the drain has begun; by then it has cancelled what runs.
  const auto refused = [&] {
    return absl::IsUnavailable(loop.Admit(Request(loop, std::make_shared<RecordingSink>()), 0));
  };
  while (!refused()) std::this_thread::yield();
  draining.Notify();
  drain.join();
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(GetReason(failed[0].status), "DRAINING");
  EXPECT_EQ(Count(metrics::kSteps), 0);
}

// Each waits for the other one.
TEST_F(PictureLoopTest, EncodesOnSeveralThreads) {
  absl::Barrier both(2);
  const auto meet = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                        const image::RunParts& run_parts) {
    both.Block();
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = meet, .encoders = 2}, device::Host(), metrics_, clock_);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink, /*pictures=*/2), 0));
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
}

TEST_F(PictureLoopTest, APictureWaitsForNoEncoderWhereAnotherIsIdle) {
  absl::Notification go_on;
  std::atomic<int> encoded = 0;
  const auto hold_first = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                              const image::RunParts& run_parts) {
    if (++encoded == 1) go_on.WaitForNotification();
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = hold_first, .encoders = 2}, device::Host(), metrics_, clock_);
  const auto held = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, held), 0));
  while (encoded == 0) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Only<Completed>(RunOn(loop)).size(), 1u);
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(held->WaitForEnd()).size(), 1u);
}

TEST_F(PictureLoopTest, APictureSaysWhenItWasEncoded) {
  absl::Time begin;
  const auto encode = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                          const image::RunParts& run_parts) {
    begin = clock_.Monotonic();
    clock_.Advance(absl::Seconds(2));
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = encode}, device::Host(), metrics_, clock_);
  const auto images = Only<Image>(RunOn(loop));
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].encoded.begin, begin);
  EXPECT_EQ(images[0].encoded.length(), absl::Seconds(2));
}

// A client that gets the end may evict the graphs that it used.
TEST_F(PictureLoopTest, APictureHoldsNoGraphsAnyMoreWhenItIsEncoded) {
  std::weak_ptr<const pipeline::Request> request;
  bool is_held = true;
  const auto look = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                        const image::RunParts& run_parts) {
    is_held = !request.expired();
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = look}, device::Host(), metrics_, clock_);
  const auto sink = std::make_shared<RecordingSink>();
  const std::shared_ptr<Job> job = Request(loop, sink);
  request = job->pictures[0]->request;
  ASSERT_OK(loop.Admit(job, 0));
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
  EXPECT_FALSE(is_held);
}

TEST_F(PictureLoopTest, PicturesOfACancelledRequestAreNotEncodedAndGoAtOnce) {
  absl::Notification encoding;
  absl::Notification go_on;
  std::atomic<int> encoded = 0;
  const auto encode = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                          const image::RunParts& run_parts) {
    if (++encoded == 1) {
      encoding.Notify();
      go_on.WaitForNotification();
    }
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = encode}, device::Host(), metrics_, clock_);
  const auto first = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, first), 0));
  encoding.WaitForNotification();
  // All three of the second request are finished and wait behind the first one's.
  absl::Notification all_decoded;
  const auto second = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->stage == Stage::kDecode && progress->image_index == 2) {
      all_decoded.Notify();
    }
  });
  const std::shared_ptr<Job> job = Request(loop, second, /*pictures=*/3);
  ASSERT_OK(loop.Admit(job, 0));
  all_decoded.WaitForNotification();
  loop.Cancel(job->handle);
  EXPECT_EQ(Only<Failed>(second->WaitForEnd()).size(), 1u);
  EXPECT_EQ(loop.result_bytes(), 64 * 64 * 3);  // the first one's: theirs are gone
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(first->WaitForEnd()).size(), 1u);
  EXPECT_EQ(Only<Completed>(RunOn(loop)).size(), 1u);  // behind them in the encoder's queue
  EXPECT_EQ(encoded, 2);
}

TEST_F(PictureLoopTest, BeginsNoPictureWhileUnreadOnesHoldWhatTheyMay) {
  PictureLoop loop({.picture_bytes = 1}, device::Host(), metrics_, clock_);
  const auto slow = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, slow), 0));
  std::vector<Event> unread = slow->WaitForEnd();
  const int64_t bytes = static_cast<int64_t>(Only<Image>(unread).at(0).bytes.size());
  EXPECT_EQ(loop.result_bytes(), bytes);
  EXPECT_FALSE(loop.WaitsForReaders());  // no picture is asked for

  std::atomic<int> runs = 0;
  model_->on_run.enqueue = [&] { ++runs; };
  const auto next = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, next), 0));
  // The first one's last unit may be the device's for a moment after its end was told.
  while (!loop.WaitsForReaders()) std::this_thread::yield();
  const auto cancelled = std::make_shared<RecordingSink>();
  const std::shared_ptr<Job> impatient = Request(loop, cancelled);
  ASSERT_OK(loop.Admit(impatient, 0));
  loop.Cancel(impatient->handle);  // a loop that waits hears of it
  EXPECT_EQ(Only<Failed>(cancelled->WaitForEnd()).size(), 1u);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(loop.result_bytes(), bytes);

  unread.clear();
  slow->Clear();
  EXPECT_EQ(Only<Completed>(next->WaitForEnd()).size(), 1u);
  EXPECT_FALSE(loop.WaitsForReaders());
}

TEST_F(PictureLoopTest, CountsPixelsUntilTheyAreEncodedAndFilesUntilTheyAreRead) {
  absl::Notification encoding;
  absl::Notification go_on;
  const auto encode = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                          const image::RunParts& run_parts) {
    encoding.Notify();
    go_on.WaitForNotification();
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.encode = encode}, device::Host(), metrics_, clock_);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink), 0));
  encoding.WaitForNotification();
  EXPECT_EQ(loop.result_bytes(), 64 * 64 * 3);
  go_on.Notify();
  std::vector<Event> unread = sink->WaitForEnd();
  EXPECT_EQ(loop.result_bytes(), static_cast<int64_t>(Only<Image>(unread).at(0).bytes.size()));
  unread.clear();
  sink->Clear();
  EXPECT_EQ(loop.result_bytes(), 0);
}

TEST_F(PictureLoopTest, SaysThatAUnitHangsUntilItEnds) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  absl::Notification runs;
  absl::Notification go_on;
  model_->on_run.enqueue = [&] {
    if (runs.HasBeenNotified()) return;
    runs.Notify();
    go_on.WaitForNotification();
  };
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink), 0));
  runs.WaitForNotification();
  EXPECT_FALSE(loop.FindHangs().unit.has_value());
  clock_.Advance(UnitWatchdog::kFirstLimit);
  const OverdueUnit overdue = loop.FindHangs().unit.value();
  EXPECT_EQ(overdue.request_id, "request-1");
  EXPECT_EQ(overdue.stage, Stage::kText);
  EXPECT_EQ(overdue.executed_size, (pipeline::Size{64, 64}));
  EXPECT_EQ(overdue.running, UnitWatchdog::kFirstLimit);
  EXPECT_TRUE(loop.FindHangs().threads.empty());  // threads have a minute
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
  EXPECT_FALSE(loop.FindHangs().unit.has_value());
}

// The preparing thread finds that there is no room for a request when its client gives it up.
TEST_F(PictureLoopTest, ARequestIsRefusedOrCancelledAndNeverBoth) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  const auto end = [&](bool cancelled_first) {
    const auto sink = std::make_shared<RecordingSink>();
    const std::shared_ptr<Job> job = Request(loop, sink);
    job->pictures.clear();
    EXPECT_OK(loop.Admit(job, 0));
    if (cancelled_first) {
      loop.Cancel(job->handle);
      sink->WaitForEnd();
    }
    loop.Reject(*job, absl::ResourceExhaustedError("no room"));
    loop.Cancel(job->handle);
    return Only<Failed>(sink->WaitForEnd()).at(0).status;
  };
  EXPECT_TRUE(absl::IsCancelled(end(/*cancelled_first=*/true)));
  EXPECT_EQ(Count(metrics::kRequestsCancelled), 1);
  EXPECT_EQ(Count(metrics::kRequestsRejected), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(end(/*cancelled_first=*/false)));
  EXPECT_EQ(Count(metrics::kRequestsCancelled), 1);
  EXPECT_EQ(Count(metrics::kRequestsRejected), 1);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 0);
}

TEST_F(PictureLoopTest, EndsEveryRequestOnceWhateverEndsItAndWhenever) {
  std::atomic<int> encoded = 0;
  const auto encode = [&](const Job& job, int index, uint64_t seed, const image::Image& pixels,
                          const image::RunParts& run_parts) {
    if (++encoded % 5 == 0) return absl::StatusOr<Image>(absl::InternalError("cannot encode"));
    return EncodeImage(job, index, seed, pixels, run_parts);
  };
  PictureLoop loop({.queue = {.pictures = 1000}, .encode = encode}, device::Host(), metrics_,
                   clock_);
  constexpr int kClients = 3;
  constexpr int kRequests = 4;
  const auto client = [&](int number) {
    for (int i = 0; i < kRequests; ++i) {
      const auto sink = std::make_shared<RecordingSink>();
      const std::shared_ptr<Job> job = Request(loop, sink, /*pictures=*/2);
      ASSERT_OK(loop.Admit(job, 0));
      if ((i + number) % 3 == 0) sink->WaitFor<Progress>();
      if ((i + number) % 3 != 1) loop.Cancel(job->handle);
      const std::vector<Event> events = sink->WaitForEnd();
      EXPECT_EQ(Only<Failed>(events).size() + Only<Completed>(events).size(), 1u);
      sink->Clear();
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(client, i);
  for (std::thread& thread : clients) thread.join();
  RunOn(loop);  // the encoder's earlier work is done or dropped when this has ended
  EXPECT_EQ(loop.state_bytes(), 0);
  EXPECT_EQ(loop.result_bytes(), 0);
  EXPECT_EQ(Count(metrics::kQueueDepth), 0);
  EXPECT_EQ(Count(metrics::kRequestsInFlight), 0);
}

}  // namespace
}  // namespace latentd::engine
