// Requests that come back to an engine which has refused them, known by what they ask for.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/engine/local_engine.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;

Config OnePlace() {
  Config config = SmallConfig();
  config.queue_capacity = 1;
  config.load_waits_for_shared_steps = true;  // so that nothing runs but what is asked for
  return config;
}

GenerateSpec SpecWithSeed(std::optional<uint64_t> seed) {
  GenerateSpec spec = SmallSpec();
  spec.picture.seed = seed;
  return spec;
}

class AskedAgainTest : public ::testing::Test {
 protected:
  AskedAgainTest() { EXPECT_OK(engine_.Load()); }

  std::string Refusal(const GenerateSpec& spec) { return GetReason(SubmitTo(engine_, spec)); }
  // It is told to come back while another one has the only place; then it is time, and the place is
  // free.
  void Refuse(const GenerateSpec& spec) {
    absl::Notification go_on;
    on_run_.enqueue = [&] { go_on.WaitForNotification(); };
    const auto sink = std::make_shared<RecordingSink>();
    ASSERT_OK(engine_.Submit(SpecWithSeed(1), sink));
    const absl::Status refused = SubmitTo(engine_, spec);
    go_on.Notify();
    sink->WaitForEnd();
    on_run_.enqueue = nullptr;
    ASSERT_EQ(GetReason(refused), "QUEUE_FULL") << refused;
    clock_.Advance(GetRetryDelay(refused).value());
  }

  OnRun on_run_;
  FakeClock clock_;
  LocalEngine engine_{OnePlace(), std::make_unique<RunWatch>(on_run_, device::Host()), clock_};
};

TEST_F(AskedAgainTest, ThePlaceIsKeptForTheRequestThatWasTold) {
  Refuse(SpecWithSeed(2));
  EXPECT_EQ(Refusal(SpecWithSeed(3)), "QUEUE_FULL");
  EXPECT_EQ(Only<Completed>(RunOn(engine_, SpecWithSeed(2))).size(), 1u);
}

TEST_F(AskedAgainTest, ASeedThatTheServerChoosesIsNotWhatItWasAskedFor) {
  Refuse(SpecWithSeed(std::nullopt));
  EXPECT_EQ(Only<Completed>(RunOn(engine_, SpecWithSeed(std::nullopt))).size(), 1u);
}

}  // namespace
}  // namespace latentd::engine
