#include "core/engine/pool_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error_details.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::SizeIs;

const std::vector<std::string> kDevices = {"device 0", "device 1"};

ServerStatus Merged(const ServerStatus& first, const ServerStatus& second) {
  ServerStatus all;
  MergeStatus(kDevices, std::vector<ServerStatus>{first, second}, all);
  return all;
}

TEST(PoolReportsTest, TheStateIsThatOfTheDeviceThatIsLeastFar) {
  const auto state = [](State first, State second) {
    return Merged({.state = first}, {.state = second}).state;
  };
  EXPECT_EQ(state(State::kReady, State::kReady), State::kReady);
  EXPECT_EQ(state(State::kReady, State::kDegraded), State::kDegraded);
  EXPECT_EQ(state(State::kWarming, State::kReady), State::kWarming);
  EXPECT_EQ(state(State::kWarming, State::kLoading), State::kLoading);
  EXPECT_EQ(state(State::kDraining, State::kFailed), State::kFailed);
}

TEST(PoolReportsTest, AReasonNamesTheDeviceWhereNotAllSayTheSame) {
  const ServerStatus ready{.state = State::kReady, .reason = "no base"};
  EXPECT_EQ(Merged(ready, ready).reason, "no base");
  const ServerStatus degraded{.state = State::kDegraded, .reason = "cold"};
  EXPECT_EQ(Merged(ready, degraded).reason, "device 1: cold");
  const ServerStatus edited{.state = State::kDegraded, .reason = "edited"};
  EXPECT_EQ(Merged(edited, degraded).reason, "device 0: edited; device 1: cold");
  const ServerStatus failed{.state = State::kFailed, .reason = "why", .device_fault = "a fault"};
  EXPECT_EQ(Merged(ready, failed).device_fault, "device 1: a fault");
}

TEST(PoolReportsTest, CountsOfGraphsAreSums) {
  const ServerStatus first{.graphs_done = 1, .graphs_total = 4};
  ServerStatus second{.graphs_done = 2, .graphs_total = 4};
  second.shared_steps = {3, 5};
  const ServerStatus merged = Merged(first, second);
  EXPECT_EQ(merged.graphs_done, 3);
  EXPECT_EQ(merged.graphs_total, 8);
  EXPECT_EQ(merged.shared_steps, std::nullopt);  // the first is not through
  EXPECT_EQ(Merged(second, second).shared_steps, (ServerStatus::GraphCount{6, 10}));
}

TEST(PoolReportsTest, ABucketIsReadyWhereItIsOnOneDevice) {
  const ServerStatus::Bucket ready{{64, 64}, true, ""}, cold{{64, 64}, false, "cold"};
  const ServerStatus::Bucket other{{96, 64}, false, "not asked for"};
  EXPECT_THAT(Merged({.buckets = {cold}}, {.buckets = {ready, other}}).buckets,
              ElementsAre(ready, other));
  EXPECT_THAT(Merged({.buckets = {ready}}, {.buckets = {cold}}).buckets, ElementsAre(ready));
}

TEST(PoolReportsTest, AGraphIsShownOnceAsFarAsWhereItIsLeastFar) {
  const GraphEntry ready{.id = "a", .state = GraphState::kReady, .device_bytes = 10, .hits = 1};
  GraphEntry cold = ready;
  cold.state = GraphState::kCold;
  cold.reason = "evicted";
  cold.device_bytes = 0;
  cold.pinned = true;
  for (const bool is_second : {false, true}) {
    const auto merged =
        MergeEntries(kDevices, std::vector<std::vector<GraphEntry>>{{is_second ? ready : cold},
                                                                    {is_second ? cold : ready}});
    ASSERT_THAT(merged, SizeIs(1));
    EXPECT_EQ(merged[0].state, GraphState::kCold);
    EXPECT_EQ(merged[0].reason, is_second ? "device 1: evicted" : "device 0: evicted");
    EXPECT_EQ(merged[0].device_bytes, 10);
    EXPECT_EQ(merged[0].hits, 2);
    EXPECT_TRUE(merged[0].pinned);
  }
  const auto same = MergeEntries(kDevices, std::vector<std::vector<GraphEntry>>{{cold}, {cold}});
  EXPECT_EQ(same[0].reason, "evicted");
}

TEST(PoolReportsTest, AFailureOfOneDeviceIsTheGraphsAndKeepsItsReason) {
  const EntryResult good{.id = "a"};
  EntryResult bad = good;
  bad.status = WithReason(absl::ResourceExhaustedError("no room"), "OUT_OF_MEMORY");
  const auto merged = MergeResults(kDevices, std::vector<std::vector<EntryResult>>{{good}, {bad}});
  ASSERT_THAT(merged, SizeIs(1));
  EXPECT_THAT(merged[0].status,
              StatusIs(absl::StatusCode::kResourceExhausted, "device 1: no room"));
  EXPECT_EQ(GetReason(merged[0].status), "OUT_OF_MEMORY");
}

TEST(PoolReportsTest, MemoryIsTheSumButForWhatIsTheProcesss) {
  MemoryReport one;
  one.weights = {{"base", "unet", 5, 1, {"base"}}};
  one.weight_bytes = 5;
  one.resident_bytes = one.host_available_bytes = 7;
  one.pinned_bytes = 2;
  one.budget_bytes = 9;
  one.predicted.weights = 4;
  one.devices = {{.name = "a GPU", .total_bytes = 80}};
  MemoryReport other = one;
  other.weights.push_back({"", "vae", 3, 0, {"refiner"}});
  const MemoryReport all = MergeReports(kDevices, {one, other});
  EXPECT_EQ(all.weight_bytes, 10);
  EXPECT_EQ(all.pinned_bytes, 4);
  EXPECT_EQ(all.budget_bytes, 18);
  EXPECT_EQ(all.resident_bytes, 7);
  EXPECT_EQ(all.host_available_bytes, 7);
  EXPECT_EQ(all.predicted.weights, 8);
  ASSERT_THAT(all.weights, SizeIs(2));
  EXPECT_EQ(all.weights[0].model, "base");
  EXPECT_EQ(all.weights[0].bytes, 10);
  EXPECT_EQ(all.weights[0].shared_bytes, 2);
  EXPECT_EQ(all.weights[1].component, "vae");
  ASSERT_THAT(all.devices, SizeIs(2));
  EXPECT_EQ(all.devices[0].name, "device 0: a GPU");
  EXPECT_EQ(all.devices[1].name, "device 1: a GPU");
  EXPECT_EQ(all.devices[1].total_bytes, 80);
}

}  // namespace
}  // namespace latentd::engine
