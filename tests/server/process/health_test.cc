#include "server/process/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::server::process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HealthTest, IsAliveFromTheStartAndReadyOnceTheEngineIs) {
  Health health;
  EXPECT_TRUE(health.alive());
  EXPECT_EQ(health.WhyNotReady(), "loading");
  health.Follow(engine::ServerStatus{.state = engine::State::kReady});
  EXPECT_TRUE(health.ready());
}

TEST(HealthTest, SaysHowFarAStartIs) {
  Health health;
  health.Follow(
      engine::ServerStatus{.state = engine::State::kWarming, .graphs_done = 3, .graphs_total = 25});
  EXPECT_EQ(health.WhyNotReady(), "warming: 3 of 25 graphs");
}

TEST(HealthTest, IsReadyWithOneBucketThatIs) {
  Health health;
  engine::ServerStatus status = {.state = engine::State::kDegraded, .reason = "64x64: no room"};
  status.buckets = {{.size = {64, 64}}, {.size = {96, 64}}};
  health.Follow(status);
  EXPECT_EQ(health.WhyNotReady(), "no bucket is ready: 64x64: no room");
  status.buckets[1].ready = true;
  health.Follow(status);
  EXPECT_TRUE(health.ready());
}

TEST(HealthTest, SaysWhyInOneLine) {
  Health health;
  health.Follow(
      engine::ServerStatus{.state = engine::State::kFailed, .reason = "no model\r\nin it"});
  EXPECT_THAT(health.WhyNotReady(), AllOf(HasSubstr("failed: no model"), HasSubstr("in it"),
                                          Not(HasSubstr("\n")), Not(HasSubstr("\r"))));
}

TEST(HealthTest, OneThatDrainsIsNeverReadyAgain) {
  Health health;
  health.Follow(engine::ServerStatus{.state = engine::State::kReady});
  health.BeginDrain();
  EXPECT_EQ(health.WhyNotReady(), "draining");
  health.Follow(engine::ServerStatus{.state = engine::State::kReady});
  EXPECT_FALSE(health.ready());
  EXPECT_TRUE(health.alive());
}

TEST(HealthTest, IsNotAliveWhileAUnitHangs) {
  Health health;
  health.Follow(engine::ServerStatus{.state = engine::State::kReady});
  health.Follow(
      {.overdue = engine::OverdueUnit{.running = absl::Seconds(95), .limit = absl::Seconds(60)}});
  EXPECT_THAT(health.WhyNotAlive(), AllOf(HasSubstr("1m35s"), HasSubstr("1m ")));
  EXPECT_TRUE(health.ready());
  health.Follow(engine::LoopStatus{});
  EXPECT_TRUE(health.alive());
}

}  // namespace
}  // namespace latentd::server::process
