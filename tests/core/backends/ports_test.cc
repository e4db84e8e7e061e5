// The memory that executables take for their ports.
#include "core/backends/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host_device.h"
#include "tests/support/separate_device.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using device::Buffer;
using device::DType;
using device::Place;
using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

auto IsRefused(const char* why) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
}

Port Floats(const char* name, int updates = -1) {
  return {.name = name, .dtype = DType::kF32, .shape = {4}, .updates = updates};
}

// Inputs "x" and "state", outputs "y" and, over its input, "state".
class CheckBuffersTest : public ::testing::Test {
 protected:
  absl::Status Check(const Buffer& x, const Buffer& state, const Buffer& y) const {
    return CheckBuffers(info_, device::Host(), {x, state}, {y, state});
  }

  const ExecutableInfo info_ = {.inputs = {Floats("x"), Floats("state")},
                                .outputs = {Floats("y"), Floats("state", 1)}};
  const Buffer memory_ = Buffer::Allocate(DType::kF32, {16});
};

TEST_F(CheckBuffersTest, TakesPortsBesideEachOtherAndAnOutputOverTheInputThatItUpdates) {
  EXPECT_OK(Check(memory_.Rows(0, 4), memory_.Rows(4, 8), memory_.Rows(8, 12)));
}

TEST_F(CheckBuffersTest, TakesInputsThatOverlap) {
  const ExecutableInfo info = {.inputs = {Floats("x"), Floats("z")}, .outputs = {Floats("y")}};
  EXPECT_OK(CheckBuffers(info, device::Host(), {memory_.Rows(0, 4), memory_.Rows(2, 6)},
                         {memory_.Rows(8, 12)}));
}

TEST_F(CheckBuffersTest, RefusesAnOutputThatOverlapsAnotherPort) {
  const Buffer state = memory_.Rows(8, 12);
  EXPECT_THAT(Check(memory_.Rows(0, 4), state, memory_.Rows(0, 4)),
              IsRefused("output \"y\" overlaps input \"x\""));
  EXPECT_THAT(Check(memory_.Rows(0, 4), state, memory_.Rows(3, 7)),
              IsRefused("output \"y\" overlaps input \"x\""));
  EXPECT_THAT(Check(memory_.Rows(0, 4), state, memory_.Rows(11, 15)),
              IsRefused("output \"y\" overlaps input \"state\""));
  // An output that is written over its own input is not written over another one.
  EXPECT_THAT(Check(memory_.Rows(9, 13), state, memory_.Rows(0, 4)),
              IsRefused("output \"state\" overlaps input \"x\""));
  const ExecutableInfo two = {.inputs = {}, .outputs = {Floats("y"), Floats("z")}};
  EXPECT_THAT(CheckBuffers(two, device::Host(), {}, {memory_.Rows(0, 4), memory_.Rows(1, 5)}),
              IsRefused("output \"y\" overlaps output \"z\""));
}

TEST_F(CheckBuffersTest, RefusesMemoryOfTheHostOnAnotherDevice) {
  testing::SeparateDevice device;
  const ExecutableInfo info = {.inputs = {Floats("x")}, .outputs = {Floats("y")}};
  const auto there = [&](Place place) { return *device.Allocate(DType::kF32, {4}, place); };
  const Buffer here = Buffer::Allocate(DType::kF32, {4});
  const Buffer x = there(Place::kDevice), y = there(Place::kPinned);
  EXPECT_OK(CheckBuffers(info, device, {x}, {y}));
  EXPECT_THAT(CheckBuffers(info, device, {here}, {y}),
              IsRefused("input \"x\" lies in the host's memory"));
  EXPECT_THAT(CheckBuffers(info, device, {x}, {here}),
              IsRefused("output \"y\" lies in the host's memory"));
  EXPECT_OK(CheckBuffers(info, device::Host(), {here},
                         {*device::Host().Allocate(DType::kF32, {4}, Place::kDevice)}));
}

}  // namespace
}  // namespace latentd::backends
