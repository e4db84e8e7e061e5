// The tests' own device: that it finds what it is there to find.
#include "tests/support/separate_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/synchronization/notification.h"
#include "core/base/clock.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Place;
using ::testing::ElementsAre;

class SeparateDeviceTest : public ::testing::Test {
 protected:
  Buffer Allocate(Place place, int64_t elements = 2) {
    return device_.Allocate(DType::kF32, {elements}, place).value();
  }
  void Push(std::function<absl::Status()> work) {
    static_cast<device::HostStream&>(*stream_).Push(std::move(work));
  }

  SeparateDevice device_;
  FakeClock clock_;
  std::unique_ptr<device::Stream> stream_ = device_.NewStream(clock_).value();
};

TEST_F(SeparateDeviceTest, EndsTheProcessThatFollowsADevicesAddress) {
  const Buffer memory = Allocate(Place::kDevice);
  EXPECT_DEATH(std::memset(memory.data(), 1, 1), "");
  volatile char read = 0;
  EXPECT_DEATH(read = *static_cast<const char*>(memory.data()), "");
  static_cast<void>(read);
  std::memset(device_.AddressOf(memory), 1, memory.bytes());
}

TEST_F(SeparateDeviceTest, CopiesLateAndInOrder) {
  const Buffer from = Allocate(Place::kPinned), on_device = Allocate(Place::kDevice),
               to = Allocate(Place::kPinned);
  from.as<float>()[0] = 1;
  ASSERT_OK(device_.Copy(from, on_device, *stream_));
  ASSERT_OK(device_.Copy(on_device.Rows(0, 1), to.Rows(1, 2), *stream_));
  const auto copied = stream_->Record().value();
  from.as<float>()[0] = 2;  // too early: it has not been read
  EXPECT_FALSE(copied->Reached());
  EXPECT_THAT(to.as<float>(), ElementsAre(0, 0));
  ASSERT_OK(copied->Wait());
  EXPECT_TRUE(copied->Reached());
  EXPECT_THAT(to.as<float>(), ElementsAre(0, 2));
}

TEST_F(SeparateDeviceTest, AnEventSaysWhatFailedSinceTheOneBefore) {
  Push([] { return absl::InternalError("first"); });
  Push([] { return absl::InternalError("second"); });
  const auto failed = stream_->Record().value();
  clock_.Advance(absl::Seconds(1));
  const auto fine = stream_->Record().value();
  EXPECT_OK(fine->Wait());
  EXPECT_THAT(failed->Wait(), StatusIs(absl::StatusCode::kInternal, "first"));
  EXPECT_EQ(failed->time(), clock_.Monotonic());  // it ran when it was waited for
}

TEST_F(SeparateDeviceTest, WaitsForNoMoreThanTheEvent) {
  bool later = false;
  const auto first = stream_->Record().value();
  Push([&] {
    later = true;
    return absl::OkStatus();
  });
  ASSERT_OK(first->Wait());
  EXPECT_FALSE(later);
  stream_.reset();  // the end of a stream waits for all
  EXPECT_TRUE(later);
}

TEST_F(SeparateDeviceTest, FreesMemoryWithItsLastCopy) {
  Buffer memory = Allocate(Place::kDevice);
  const Buffer host = Allocate(Place::kHost);
  EXPECT_EQ(device_.allocations(), 1u);
  ASSERT_OK(device_.Copy(host, memory, *stream_));
  memory = {};
  EXPECT_EQ(device_.allocations(), 1u);  // the copy has it
  ASSERT_OK(stream_->Synchronize());
  EXPECT_EQ(device_.allocations(), 0u);
}

// Two devices that have met, each with a stream.
class TwoDevicesTest : public SeparateDeviceTest {
 protected:
  TwoDevicesTest() {
    EXPECT_OK(device_.Meet(other_));
    EXPECT_OK(other_.Meet(device_));
  }

  SeparateDevice other_;
  std::unique_ptr<device::Stream> theirs_ = other_.NewStream(clock_).value();
};

// From the host to one, to the other, and back; each waits for the one before.
TEST_F(TwoDevicesTest, CopyFromOneMemoryToTheOther) {
  const Buffer from = Allocate(Place::kPinned), here = Allocate(Place::kDevice),
               back = Allocate(Place::kDevice), to = Allocate(Place::kPinned);
  const Buffer there = other_.Allocate(DType::kF32, {2}, Place::kDevice).value();
  from.as<float>()[1] = 3;
  ASSERT_OK(device_.Copy(from, here, *stream_));
  ASSERT_OK(theirs_->WaitFor(stream_->Record().value()));
  ASSERT_OK(other_.Copy(here, there, *theirs_));
  ASSERT_OK(other_.Copy(there, back, *theirs_));
  ASSERT_OK(stream_->WaitFor(theirs_->Record().value()));
  ASSERT_OK(device_.Copy(back, to, *stream_));
  EXPECT_THAT(to.as<float>(), ElementsAre(0, 0));
  ASSERT_OK(stream_->Synchronize());
  EXPECT_THAT(to.as<float>(), ElementsAre(0, 3));
}

TEST_F(TwoDevicesTest, AStreamThatWaitsHasNoFailureOfTheOther) {
  Push([] { return absl::InternalError("the other's"); });
  const auto failed = stream_->Record().value();
  ASSERT_OK(theirs_->WaitFor(failed));
  EXPECT_OK(theirs_->Synchronize());
  EXPECT_TRUE(failed->Reached());
  EXPECT_THAT(failed->Wait(), StatusIs(absl::StatusCode::kInternal, "the other's"));
}

TEST_F(SeparateDeviceTest, CopiesToNoDeviceThatItHasNotMet) {
  SeparateDevice other;
  const Buffer here = Allocate(Place::kDevice);
  const Buffer there = other.Allocate(DType::kF32, {2}, Place::kDevice).value();
  EXPECT_DEATH(
      {
        const auto stream = device_.NewStream(clock_).value();  // with a thread of that process
        device_.Copy(here, there, *stream).IgnoreError();
        stream->Synchronize().IgnoreError();
      },
      "of no device that this one reaches");
}

// Two that have met, and copy by the host alone.
TEST_F(SeparateDeviceTest, CopiesToNoDeviceThatItDoesNotReach) {
  SeparateDevice apart(SeparateDevice::Peers::kByHost), other;
  ASSERT_OK(apart.Meet(other));
  ASSERT_OK(other.Meet(apart));
  EXPECT_FALSE(apart.Reaches(other));
  EXPECT_TRUE(other.Reaches(apart));
  EXPECT_FALSE(other.Reaches(device_));  // it has not met that
  const Buffer here = apart.Allocate(DType::kF32, {2}, Place::kDevice).value();
  const Buffer there = other.Allocate(DType::kF32, {2}, Place::kDevice).value();
  EXPECT_DEATH(
      {
        const auto stream = apart.NewStream(clock_).value();
        apart.Copy(here, there, *stream).IgnoreError();
        stream->Synchronize().IgnoreError();
      },
      "of no device that this one reaches");
}

}  // namespace
}  // namespace latentd::testing
