// Threads of the loop that do not go on, and what the engine says of them. Those that wait may not
// be at it yet when the clock moves: then the test waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/device/host_device.h"
#include "core/engine/loop/picture_loop.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

// A sink that takes `before` events of that type, and does not go on at the next one until the test
// says so.
template <typename T>
struct HungSink {
  void WaitAtEvent(const Event& event) {
    if (!std::holds_alternative<T>(event) || before-- != 0) return;
    hangs.Notify();
    go_on.WaitForNotification();
  }

  int before = 0;
  absl::Notification hangs, go_on;
  const std::shared_ptr<WatchedSink> sink =
      std::make_shared<WatchedSink>([this](const Event& event) { WaitAtEvent(event); });
};

class ThreadHangsTest : public LoopTest {
 protected:
  // Within which all that hangs is overdue.
  void PassTime() {
    clock_.Advance(ThreadWatch::kLimit);
    while (loop_.FindHangs().threads.size() > 1) std::this_thread::yield();
  }
  auto IsHang(const std::string& name, const std::string& activity) {
    return ElementsAre(AllOf(Field(&OverdueThread::name, name),
                             Field(&OverdueThread::activity, activity),
                             Field(&OverdueThread::running, ThreadWatch::kLimit)));
  }
  void WaitForRecovery() {
    while (!loop_.FindHangs().empty()) std::this_thread::yield();
  }
  double ShownAs(const std::string& thread) {
    metrics_.ShowHangs(loop_.FindHangs(), loop_.threads());
    return MetricOf(registry_, metrics::kThreadOverdue, thread);
  }

  std::function<void()> on_encode_ = [] {};
  PictureLoop loop_{{.encode =
                         [this](const Job& job, int index, uint64_t seed,
                                const image::Image& pixels, const image::RunParts& run_parts) {
                           on_encode_();
                           return EncodeImage(job, index, seed, pixels, run_parts);
                         },
                     .encoders = 2},
                    device::Host(),
                    metrics_,
                    clock_};
};

TEST_F(ThreadHangsTest, ALoopThatWaitsForWorkDoesNotHang) {
  RunOn(loop_);
  clock_.Advance(absl::Hours(100));
  WaitForRecovery();
  clock_.Advance(absl::Hours(100));
  EXPECT_TRUE(loop_.FindHangs().empty());
}

TEST_F(ThreadHangsTest, TheLoopHangsBeforeAUnit) {
  HungSink<Started> hung;
  ASSERT_OK(loop_.Admit(Request(loop_, hung.sink), 0));
  hung.hangs.WaitForNotification();
  EXPECT_TRUE(loop_.FindHangs().empty());
  PassTime();
  EXPECT_THAT(loop_.FindHangs().threads, IsHang("loop", "beginning a unit"));
  EXPECT_FALSE(loop_.FindHangs().unit.has_value());
  hung.go_on.Notify();
  EXPECT_EQ(Only<Completed>(hung.sink->WaitForEnd()).size(), 1u);
  WaitForRecovery();
}

TEST_F(ThreadHangsTest, TheLoopHangsAfterAUnit) {
  HungSink<Progress> hung;
  ASSERT_OK(loop_.Admit(Request(loop_, hung.sink), 0));
  hung.hangs.WaitForNotification();
  PassTime();
  EXPECT_THAT(loop_.FindHangs().threads, IsHang("loop", "completing a unit"));
  hung.go_on.Notify();
  EXPECT_EQ(Only<Completed>(hung.sink->WaitForEnd()).size(), 1u);
  WaitForRecovery();
}

TEST_F(ThreadHangsTest, TheLoopHangsWhereItTellsWhoWaits) {
  HungSink<Queued> hung = {.before = 1};
  absl::Notification all_wait;
  model_->on_run.enqueue = [&] { all_wait.WaitForNotification(); };
  ASSERT_OK(loop_.Admit(Request(loop_, std::make_shared<RecordingSink>()), 0));
  ASSERT_OK(loop_.Admit(Request(loop_, std::make_shared<RecordingSink>()), 0));
  ASSERT_OK(loop_.Admit(Request(loop_, hung.sink), 0));
  all_wait.Notify();
  hung.hangs.WaitForNotification();
  PassTime();
  EXPECT_THAT(loop_.FindHangs().threads, IsHang("loop", "looking for work"));
  hung.go_on.Notify();
  EXPECT_EQ(Only<Completed>(hung.sink->WaitForEnd()).size(), 1u);
  WaitForRecovery();
}

TEST_F(ThreadHangsTest, AnEncoderHangs) {
  absl::Notification hangs, go_on;
  on_encode_ = [&] {
    hangs.Notify();
    go_on.WaitForNotification();
  };
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop_.Admit(Request(loop_, sink), 0));
  hangs.WaitForNotification();
  EXPECT_EQ(ShownAs("encoder"), 0);
  PassTime();
  EXPECT_THAT(loop_.FindHangs().threads, IsHang("encoder", "encoding a picture"));
  EXPECT_EQ(ShownAs("encoder"), 1);
  EXPECT_EQ(ShownAs(""), 1);
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
  WaitForRecovery();
  EXPECT_EQ(ShownAs(""), 0);
}

TEST_F(ThreadHangsTest, ThePreviewEncoderHangs) {
  HungSink<Preview> hung;
  // The image waits for the preview of its first step: of one that is done none is sent any more.
  model_->on_run.refuse_step = [&, steps = 0](int) mutable {
    if (++steps == 3) hung.hangs.WaitForNotification();
    return absl::OkStatus();
  };
  GenerateSpec spec = SmallSpec(/*steps=*/4);
  spec.picture.previews_every = 1;
  const std::shared_ptr<Job> job = model_->MakeJob(loop_, hung.sink, std::move(spec), clock_);
  job->pictures[0]->request->colors = pipeline::LatentColors{.factors = {{1, 1, 1}}};
  ASSERT_OK(loop_.Admit(job, 0));
  hung.hangs.WaitForNotification();
  clock_.Advance(ThreadWatch::kLimit);
  EXPECT_EQ(ShownAs("previews"), 1);
  hung.go_on.Notify();
  hung.sink->WaitForEnd();
  WaitForRecovery();
}

TEST_F(ThreadHangsTest, WhoEndsRequestsHangs) {
  absl::Notification runs, go_on;
  model_->on_run.enqueue = [&] {
    if (!runs.HasBeenNotified()) runs.Notify();
    go_on.WaitForNotification();
  };
  const auto first = std::make_shared<RecordingSink>();
  ASSERT_OK(loop_.Admit(Request(loop_, first), 0));
  runs.WaitForNotification();
  // The loop, which is at a unit, would do it too.
  HungSink<Failed> hung;
  const std::shared_ptr<Job> second = Request(loop_, hung.sink);
  ASSERT_OK(loop_.Admit(second, 0));
  loop_.Cancel(second->handle);
  hung.hangs.WaitForNotification();
  PassTime();
  EXPECT_THAT(loop_.FindHangs().threads, IsHang("end", "ending a request"));
  hung.go_on.Notify();
  WaitForRecovery();
  go_on.Notify();
  first->WaitForEnd();
}

// Calls a function before it makes a stream.
class WatchedDevice : public device::HostDevice {
 public:
  explicit WatchedDevice(std::function<void()> on_new_stream)
      : on_new_stream_(std::move(on_new_stream)) {}

  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(const Clock& clock) override {
    on_new_stream_();
    return HostDevice::NewStream(clock);
  }

 private:
  const std::function<void()> on_new_stream_;
};

TEST_F(ThreadHangsTest, AUnitThatThereIsNoMemoryForHasEnded) {
  WatchedDevice device([] { throw std::bad_alloc(); });
  PictureLoop loop({}, device, metrics_, clock_);
  EXPECT_EQ(Only<Failed>(RunOn(loop)).size(), 1u);
  clock_.Advance(absl::Hours(100));
  EXPECT_FALSE(loop.FindHangs().unit.has_value());
}

TEST_F(ThreadHangsTest, AUnitHangsThatWaitsForTheDevicesStream) {
  absl::Notification hangs, go_on;
  WatchedDevice device([&] {
    hangs.Notify();
    go_on.WaitForNotification();
  });
  PictureLoop loop({}, device, metrics_, clock_);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink), 0));
  hangs.WaitForNotification();
  clock_.Advance(UnitWatchdog::kFirstLimit);
  EXPECT_TRUE(loop.FindHangs().unit.has_value());
  EXPECT_THAT(loop.FindHangs().threads, IsEmpty());
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
}

TEST(EngineHangsTest, AnEngineSaysSoByItsMetrics) {
  ::latentd::testing::FakeClock clock;
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(SmallConfig(), clock));
  ASSERT_OK(engine->Load());
  HungSink<Started> hung;
  ASSERT_OK(engine->Submit(SmallSpec(), hung.sink));
  hung.hangs.WaitForNotification();
  clock.Advance(ThreadWatch::kLimit);
  EXPECT_THAT(engine->FindHangs().threads, ElementsAre(Field(&OverdueThread::name, "loop")));
  engine->RefreshMetrics();
  EXPECT_EQ(MetricOf(*engine, metrics::kThreadOverdue, "loop"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kUnitOverdue), 0);
  hung.go_on.Notify();
  hung.sink->WaitForEnd();
}

}  // namespace
}  // namespace latentd::engine
