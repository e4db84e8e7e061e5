// Far more load than a server can bear, and deadlines that a device has to be shared well for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/batching/played_server.h"

namespace latentd::batching {
namespace {

class OverloadTest : public ::testing::TestWithParam<uint32_t> {};

// It can do 16 such requests a second with deadlines of half a minute.
TEST_P(OverloadTest, TenTimesTheLoadLeavesItsWorkUndisturbed) {
  const PlayedResult result =
      PlayedServer({.rate = 160, .length = absl::Seconds(30)}, GetParam()).Run();
  EXPECT_GT(result.served, 0.95 * 16 * 30);
  EXPECT_GT(result.work, 2.2 * 30);  // work of 66 s one after the other
  EXPECT_LT(result.late, 0.02 * result.served);
}

TEST_P(OverloadTest, WhoComesBackWhenToldIsServed) {
  const PlayedResult result =
      PlayedServer({.rate = 40, .length = absl::Seconds(30)}, GetParam()).Run();
  EXPECT_GT(result.came_back, 200);
  EXPECT_GT(result.came_back_and_served, 0.95 * result.came_back);
}

// Delays are too short by what is not foreseen, until that is learned of those who came too early.
TEST_P(OverloadTest, WhoComesBackIsServedByADeviceThatIsSlowerThanForeseen) {
  const PlayedLoad load = {.rate = 60, .callers = 8, .device_slowness = 1.7};
  const PlayedResult result = PlayedServer(load, GetParam()).Run();
  EXPECT_GT(result.came_back, 200);
  EXPECT_GT(result.came_back_and_served, 0.95 * result.came_back);
  EXPECT_GT(result.work, 1.2 * 60);
}

// Each has a part of the queue, and half of them never come back. With deadlines of 3 s it is the
// time that is full, else the places.
TEST_P(OverloadTest, WhoComesBackWhenToldIsServedBesideOtherCallers) {
  for (const double rate : {40, 160}) {
    for (const absl::Duration patience : {absl::Seconds(3), absl::Seconds(30)}) {
      const PlayedLoad load = {.rate = rate, .patience = patience, .callers = 8};
      const PlayedResult result = PlayedServer(load, GetParam()).Run();
      EXPECT_GT(result.came_back, 200);
      EXPECT_GT(result.came_back_and_served, 0.95 * result.came_back);
      EXPECT_GT(result.work, 2.0 * 60);
      EXPECT_THAT(result.served_of_caller,
                  ::testing::Each(::testing::Gt(0.3 * result.served / 12)));
    }
  }
}

TEST_P(OverloadTest, RefusalsOfSomeDoNotKeepOthersOut) {
  const PlayedLoad half = {.rate = 8, .patience = absl::Seconds(1), .half_come_back = false};
  const PlayedResult result = PlayedServer(half, GetParam()).Run();
  EXPECT_GT(result.served, 0.9 * result.asked);
}

// Equal parts of an eighth would refuse a twentieth of them.
TEST_P(OverloadTest, CallersThatWantLittleLeaveOthersTheRest) {
  const PlayedLoad load = {.rate = 14.4, .half_come_back = false, .callers = 8};
  const PlayedResult result = PlayedServer(load, GetParam()).Run();
  EXPECT_GT(result.served, 0.99 * result.asked);
}

// Requests take 0.43 s alone, and the device is busy for seven tenths of the time. In turns a fifth
// of them would be late or refused; one at a time as they come, more than a third.
TEST_P(OverloadTest, DeadlinesAreKeptOnADeviceThatOnePictureFills) {
  const PlayedLoad load = {.rate = 1.64,
                           .times_alone = 3,
                           .half_come_back = false,
                           .length = absl::Minutes(10),
                           .is_device_full = true,
                           .lane_rows = 4,
                           .lane_places = 8};
  const PlayedResult result = PlayedServer(load, GetParam()).Run();
  EXPECT_GT(result.served, 0.9 * result.asked);
  EXPECT_LT(result.late, 0.02 * result.asked);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OverloadTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace latentd::batching
