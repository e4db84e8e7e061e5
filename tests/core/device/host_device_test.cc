#include "core/device/host_device.h"

#include <memory>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(HostDeviceTest, GivesZeroedMemoryAtThePlaceThatIsAskedFor) {
  ASSERT_OK_AND_ASSIGN(const Buffer pinned, Host().Allocate(DType::kF32, {3}, Place::kPinned));
  EXPECT_EQ(pinned.place(), Place::kPinned);
  EXPECT_THAT(pinned.as<float>(), Each(0.0f));
  ASSERT_OK_AND_ASSIGN(const Buffer there, Host().Allocate(DType::kF32, {3}, Place::kDevice));
  EXPECT_EQ(there.place(), Place::kDevice);
}

TEST(HostDeviceTest, HasNoMemoryOfItsOwn) {
  EXPECT_TRUE(Host().SharesHostMemory());
  EXPECT_EQ(Host().Memory().total, 0);
  EXPECT_GT(Host().Available()->bytes, 0);
}

TEST(HostDeviceTest, CopiesBetweenPlaces) {
  ASSERT_OK_AND_ASSIGN(const Buffer from, Host().Allocate(DType::kF32, {2}, Place::kPinned));
  ASSERT_OK_AND_ASSIGN(const Buffer there, Host().Allocate(DType::kF32, {2}, Place::kDevice));
  ASSERT_OK_AND_ASSIGN(const Buffer back, Host().Allocate(DType::kF32, {2}, Place::kHost));
  ASSERT_OK_AND_ASSIGN(const auto stream, Host().NewStream(SystemClock()));
  from.as<float>()[1] = 5;
  ASSERT_OK(Host().Copy(from, there, *stream));
  ASSERT_OK(Host().Copy(there, back, *stream));
  ASSERT_OK_AND_ASSIGN(const auto done, stream->Record());
  ASSERT_OK(done->Wait());
  EXPECT_THAT(back.as<float>(), ElementsAre(0, 5));
}

TEST(HostStreamTest, AnEventHasTheFirstFailureSinceTheOneBefore) {
  ASSERT_OK_AND_ASSIGN(const auto stream, Host().NewStream(SystemClock()));
  auto& host = static_cast<HostStream&>(*stream);
  host.Push([] { return absl::InternalError("first"); });
  host.Push([] { return absl::InternalError("second"); });
  ASSERT_OK_AND_ASSIGN(const auto failed, stream->Record());
  host.Push([] { return absl::OkStatus(); });
  ASSERT_OK_AND_ASSIGN(const auto fine, stream->Record());
  EXPECT_THAT(failed->Wait(), StatusIs(absl::StatusCode::kInternal, "first"));
  EXPECT_OK(fine->Wait());
}

TEST(HostStreamTest, EventsHaveTheTimeAtWhichTheyWereReached) {
  testing::FakeClock clock;
  ASSERT_OK_AND_ASSIGN(const auto stream, Host().NewStream(clock));
  ASSERT_OK_AND_ASSIGN(const auto before, stream->Record());
  static_cast<HostStream&>(*stream).Push([&] {
    clock.Advance(absl::Seconds(2));
    return absl::OkStatus();
  });
  ASSERT_OK_AND_ASSIGN(const auto after, stream->Record());
  ASSERT_TRUE(after->Reached());
  EXPECT_EQ(after->time() - before->time(), absl::Seconds(2));
}

}  // namespace
}  // namespace latentd::device
