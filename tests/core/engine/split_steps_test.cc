// An engine of two devices that share the steps of one image (--split). They are the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A request with guidance, whose steps have two rows.
GenerateSpec Guided(int steps = 4) {
  GenerateSpec spec = SmallSpec(steps);
  spec.picture.guidance_scale = 5;
  return spec;
}

struct SplitDevice {
  SeparateDevice device;
  Gate gate;  // holds every run
  std::atomic<int> runs = 0;
  OnRun on_run = {.enqueue = [this] {
    ++runs;
    gate.Pass();
  }};
};

class SplitStepsTest : public ::testing::Test {
 protected:
  ~SplitStepsTest() override {
    for (SplitDevice& device : devices_) device.gate.Open();
    engine_.reset();
  }

  void Make(Split split, std::vector<int> rows = {1, 2}) {
    engine_.reset();
    Config config = SmallConfig();
    config.rows = std::move(rows);
    config.queue_capacity = 64;
    config.split = split;
    config.load_waits_for_shared_steps = true;
    std::vector<LocalEngine::Device> devices;
    for (int i = 0; i < 2; ++i) {
      SplitDevice& device = devices_[i];
      devices.push_back({i, std::make_unique<RunWatch>(device.on_run, device.device)});
    }
    ASSERT_OK_AND_ASSIGN(engine_, LocalEngine::Create(config, std::move(devices), SystemClock()));
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady) << engine_->status().reason;
    for (SplitDevice& device : devices_) device.runs = 0;
  }
  // The image's file.
  std::string Draw(const GenerateSpec& spec) {
    const auto images = Only<Image>(RunOn(*engine_, spec));
    EXPECT_THAT(images, SizeIs(1));
    return images.empty() ? "" : images[0].bytes;
  }
  double SplitSteps() { return MetricOf(*engine_, metrics::kSplitSteps, "base"); }
  // One without guidance on either device, where it waits for the gate; gives the other device.
  size_t HoldOne(const std::shared_ptr<RecordingSink>& sink) {
    for (SplitDevice& device : devices_) {
      device.gate.Close();
      device.runs = 0;
    }
    EXPECT_OK(engine_->Submit(SmallSpec(), sink));
    while (devices_[0].runs + devices_[1].runs == 0) std::this_thread::yield();
    const size_t free = devices_[0].runs > 0 ? 1 : 0;
    devices_[free].gate.Open();
    return free;
  }

  void ExpectFailed(int device) {
    const ServerStatus status = engine_->status();
    EXPECT_EQ(status.state, State::kDegraded);
    EXPECT_EQ(status.device_fault, "");
    ASSERT_THAT(status.devices, SizeIs(2));
    EXPECT_THAT(status.devices[device].fault, HasSubstr("the test's fault"));
    EXPECT_EQ(status.devices[1 - device].fault, "");
  }

  // True of the device that has run less of the image: a helper has no text to encode, nor an
  // advance. Which one that is, the drawing decides.
  bool Helps(int device) {
    const bool helps =
        devices_[device].runs > 0 && devices_[1 - device].runs > devices_[device].runs;
    if (helps) helper_ = device;
    return helps;
  }

  std::array<SplitDevice, 2> devices_;
  std::atomic<int> helper_ = -1, refused_ = 0;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(SplitStepsTest, DrawsTheSameBytesOnBothDevices) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kNever));
  const std::string expected = Draw(Guided());
  EXPECT_EQ(SplitSteps(), 0);
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  EXPECT_EQ(Draw(Guided()), expected);
  EXPECT_EQ(SplitSteps(), 4);
  for (SplitDevice& device : devices_) EXPECT_GE(device.runs, 4);
  engine_->RefreshMetrics();
  EXPECT_EQ(MetricOf(*engine_, metrics::kLaneBytes), 0);  // the helper's too
}

TEST_F(SplitStepsTest, SplitsNoStepsWithoutGuidance) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  Draw(SmallSpec());
  EXPECT_EQ(SplitSteps(), 0);
}

// A busy one does not, and is not waited for.
TEST_F(SplitStepsTest, OnlyADeviceWithoutWorkHelps) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAuto));
  const auto held = std::make_shared<RecordingSink>();
  const size_t free = HoldOne(held);
  const std::string alone = Draw(Guided());
  EXPECT_EQ(SplitSteps(), 0);
  devices_[1 - free].gate.Open();
  held->WaitForEnd();
  EXPECT_EQ(Draw(Guided()), alone);
  EXPECT_GT(SplitSteps(), 0);
}

// Images that join each other's steps, leave them and are cancelled, on devices that help each
// other whenever one steps alone: each is what it is by itself.
TEST_F(SplitStepsTest, AnyInterleavingDrawsTheSameBytes) {
  std::vector<GenerateSpec> specs;
  for (int i = 0; i < 4; ++i) {
    specs.push_back(i == 2 ? SmallSpec(5) : Guided(3 + 2 * i));
    specs.back().picture.seed = 10 + i;
    if (i == 1) specs.back().picture.scheduler.name = "euler_ancestral";
    if (i == 3) specs.back().picture.guidance_interval = pipeline::GuidanceInterval{0.2, 0.7};
  }
  ASSERT_NO_FATAL_FAILURE(Make(Split::kNever));
  std::vector<std::string> expected;
  for (const GenerateSpec& spec : specs) expected.push_back(Draw(spec));
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways, {1, 2, 4}));
  std::vector<std::pair<size_t, std::shared_ptr<RecordingSink>>> drawn;
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto sink = std::make_shared<RecordingSink>();
      ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(specs[i], sink));
      if ((round + i) % 3 == 0) engine_->Cancel(handle);
      drawn.emplace_back(i, sink);
    }
    drawn.back().second->WaitForEnd();  // with what is left of others beside the next
  }
  int completed = 0;
  for (const auto& [i, sink] : drawn) {
    const auto images = Only<Image>(sink->WaitForEnd());
    if (images.empty()) continue;
    ++completed;
    EXPECT_EQ(images[0].bytes, expected[i]) << i;
  }
  EXPECT_GE(completed, 10);
  const double before = SplitSteps();
  EXPECT_EQ(Draw(specs[0]), expected[0]);
  EXPECT_EQ(SplitSteps(), before + 3);  // alone
}

// A helper that cannot begin: the step is made without it, and so are the image's others.
TEST_F(SplitStepsTest, DrawsTheSameBytesWhereTheHelperRefuses) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  ASSERT_EQ(SplitSteps(), 4);
  for (int i = 0; i < 2; ++i) {
    devices_[i].runs = 0;
    devices_[i].on_run.refuse = [this, i] {
      if (!Helps(i)) return absl::OkStatus();
      ++refused_;
      return absl::InternalError("the test's");
    };
  }
  EXPECT_EQ(Draw(Guided()), expected);
  EXPECT_EQ(refused_, 1);
  EXPECT_EQ(SplitSteps(), 4);
  EXPECT_EQ(engine_->state(), State::kReady);
}

// The device that helps has failed before it had anything to do: the image is drawn to its end.
TEST_F(SplitStepsTest, AFaultOfTheHelperThatCannotBeginIsReported) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (int i = 0; i < 2; ++i) {
    devices_[i].runs = 0;
    devices_[i].on_run.refuse = [this, i] {
      return Helps(i) ? device::FaultError("the test's fault") : absl::OkStatus();
    };
  }
  EXPECT_EQ(Draw(Guided()), expected);
  ExpectFailed(helper_);
  const double before = SplitSteps();
  EXPECT_EQ(Draw(Guided()), expected);
  EXPECT_EQ(SplitSteps(), before);  // nothing helps any more
}

// The step without help fails too, for a reason of its own.
TEST_F(SplitStepsTest, AFaultOfTheHelperIsReportedWithTheUnitThatFails) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (int i = 0; i < 2; ++i) {
    devices_[i].runs = 0;
    devices_[i].on_run.refuse = [this, i] {
      return Helps(i) ? device::FaultError("the test's fault") : absl::OkStatus();
    };
    devices_[i].on_run.refuse_step = [this, i](int rows) {
      const bool fails = rows == 2 && helper_ == 1 - i && refused_++ == 0;
      return fails ? absl::InternalError("the test's") : absl::OkStatus();
    };
  }
  const auto ended = Only<Failed>(RunOn(*engine_, Guided()));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status, StatusIs(absl::StatusCode::kInternal, HasSubstr("the test's")));
  ExpectFailed(helper_);
  EXPECT_EQ(Draw(Guided()), expected);
}

// CUDA tells the next call of what the device that draws has met, which may be the helper's.
TEST_F(SplitStepsTest, AFaultOfTheDrawingDeviceIsNotTheHelpers) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (int i = 0; i < 2; ++i) {
    devices_[i].runs = 0;
    devices_[i].on_run.refuse = [this, i] {
      const bool is_told = Helps(i) && refused_++ == 0;
      return is_told ? device::FaultError("the test's fault") : absl::OkStatus();
    };
    devices_[i].on_run.refuse_step = [this, i](int rows) {
      const bool fails = rows == 2 && helper_ == 1 - i;
      return fails ? device::FaultError("the test's fault") : absl::OkStatus();
    };
  }
  const auto ended = Only<Failed>(RunOn(*engine_, Guided()));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(GetReason(ended[0].status), "DEVICE_FAULT");
  ExpectFailed(1 - helper_);
  EXPECT_EQ(Draw(Guided()), expected);
}

// The advance is the first of two rows that the drawing device runs.
TEST_F(SplitStepsTest, AnAdvanceWithoutMemoryIsAStepThatIsNotSplit) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (SplitDevice& device : devices_) {
    device.on_run.refuse_step = [this](int rows) {
      const bool refuses = rows == 2 && refused_++ == 0;
      return refuses ? absl::ResourceExhaustedError("the test's") : absl::OkStatus();
    };
  }
  EXPECT_EQ(Draw(Guided()), expected);
  EXPECT_GT(refused_, 1);      // the step's was not
  EXPECT_EQ(SplitSteps(), 4);  // the first image has them
}

// It is unknown what it has written by then.
TEST_F(SplitStepsTest, AnAdvanceThatFailsFailsTheImage) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (SplitDevice& device : devices_) {
    device.on_run.refuse_step = [this](int rows) {
      const bool fails = rows == 2 && refused_++ == 0;
      return fails ? absl::InternalError("the test's") : absl::OkStatus();
    };
  }
  const auto ended = Only<Failed>(RunOn(*engine_, Guided()));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status, StatusIs(absl::StatusCode::kInternal, HasSubstr("the test's")));
  EXPECT_EQ(Draw(Guided()), expected);
}

// The helper has failed, and not the device that draws.
TEST_F(SplitStepsTest, AFaultOfTheHelperEndsTheImageAndNoOther) {
  ASSERT_NO_FATAL_FAILURE(Make(Split::kAlways));
  const std::string expected = Draw(Guided());
  for (SplitDevice& device : devices_) device.runs = 0;
  for (int i = 0; i < 2; ++i) {
    devices_[i].on_run.work = [this, i] {
      return Helps(i) ? device::FaultError("the test's fault") : absl::OkStatus();
    };
  }
  const auto failed = Only<Failed>(RunOn(*engine_, Guided()));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(GetReason(failed[0].status), "DEVICE_FAULT");
  ExpectFailed(helper_);
  EXPECT_EQ(Draw(Guided()), expected);
}

}  // namespace
}  // namespace latentd::engine
