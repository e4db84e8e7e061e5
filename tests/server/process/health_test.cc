#include "server/process/lifetime/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd::server::process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HealthTest : public ::testing::Test {
 protected:
  engine::Hangs hangs_;
  Health health_{[this] { return hangs_; }};
};

TEST_F(HealthTest, IsAliveFromTheStartAndReadyOnceTheEngineIs) {
  EXPECT_TRUE(health_.alive());
  EXPECT_EQ(health_.WhyNotReady(), "loading");
  health_.Follow(engine::ServerStatus{.state = engine::State::kReady});
  EXPECT_TRUE(health_.ready());
}

TEST_F(HealthTest, SaysHowFarAStartIs) {
  health_.Follow(
      engine::ServerStatus{.state = engine::State::kWarming, .graphs_done = 3, .graphs_total = 25});
  EXPECT_EQ(health_.WhyNotReady(), "warming: 3 of 25 graphs");
}

TEST_F(HealthTest, IsReadyWithOneBucketThatIs) {
  engine::ServerStatus status = {.state = engine::State::kDegraded, .reason = "64x64: no room"};
  status.buckets = {{.size = {64, 64}}, {.size = {96, 64}}};
  health_.Follow(status);
  EXPECT_EQ(health_.WhyNotReady(), "no bucket is ready: 64x64: no room");
  status.buckets[1].ready = true;
  health_.Follow(status);
  EXPECT_TRUE(health_.ready());
}

TEST_F(HealthTest, SaysWhyInOneLine) {
  health_.Follow(
      engine::ServerStatus{.state = engine::State::kFailed, .reason = "no model\r\nin it"});
  EXPECT_THAT(health_.WhyNotReady(), AllOf(HasSubstr("failed: no model"), HasSubstr("in it"),
                                           Not(HasSubstr("\n")), Not(HasSubstr("\r"))));
}

TEST_F(HealthTest, OneThatDrainsIsNeverReadyAgain) {
  health_.Follow(engine::ServerStatus{.state = engine::State::kReady});
  health_.BeginDrain();
  EXPECT_EQ(health_.WhyNotReady(), "draining");
  health_.Follow(engine::ServerStatus{.state = engine::State::kReady});
  EXPECT_FALSE(health_.ready());
  EXPECT_TRUE(health_.alive());
}

TEST_F(HealthTest, IsNotAliveWhileAUnitHangs) {
  health_.Follow(engine::ServerStatus{.state = engine::State::kReady});
  hangs_.unit = engine::OverdueUnit{.running = absl::Seconds(95), .limit = absl::Seconds(60)};
  EXPECT_THAT(health_.WhyNotAlive(), AllOf(HasSubstr("1m35s"), HasSubstr("1m ")));
  EXPECT_TRUE(health_.ready());
  hangs_ = {};
  EXPECT_TRUE(health_.alive());
}

TEST_F(HealthTest, IsNotAliveWhileAThreadHangs) {
  health_.Follow(engine::ServerStatus{.state = engine::State::kReady});
  hangs_.threads = {{"encoder", "encoding a picture", absl::Seconds(95), absl::Seconds(60)}};
  EXPECT_EQ(health_.WhyNotAlive(),
            "the thread encoder hangs: encoding a picture for 1m35s, and 1m is the limit");
  EXPECT_TRUE(health_.ready());
  hangs_ = {};
  EXPECT_TRUE(health_.alive());
}

}  // namespace
}  // namespace latentd::server::process
