// Choice of the devices of an engine, and its start when one of them cannot load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/engine/local_engine.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/separate_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::SeparateDevice;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Its device says how much it has.
class OwnMemory : public device::HostDevice {
 public:
  absl::StatusOr<AvailableMemory> Available() const override {
    return AvailableMemory{int64_t{1} << 20, "the test's device"};
  }
  bool SharesHostMemory() const override { return false; }
};

TEST(SeveralDevicesStartTest, EndsWhereOneDeviceCannotLoad) {
  SeparateDevice large;
  OwnMemory small;
  std::vector<LocalEngine::Device> devices;
  devices.push_back({2, *backends::cpu::CpuBackend::Create({.device = &large})});
  devices.push_back({5, *backends::cpu::CpuBackend::Create({.device = &small})});
  ASSERT_OK_AND_ASSIGN(const auto engine,
                       LocalEngine::Create(SmallConfig(), std::move(devices), SystemClock()));
  EXPECT_THAT(engine->Load(),
              StatusIs(absl::StatusCode::kResourceExhausted, StartsWith("device 5: ")));
  EXPECT_EQ(engine->state(), State::kFailed);
  EXPECT_THAT(engine->status().reason, StartsWith("device 5: "));
}

// All of them read the same files.
TEST(SeveralDevicesStartTest, OneDeviceSaysWhatOfTheCheckpointIsIgnored) {
  const testing::TemporaryDirectory directory;
  Config config = SmallConfig();
  testing::MakeEditedCheckpoint(directory.File("base"), config.base, "unet/config.json", "note",
                                "1");
  config.base = directory.File("base");
  absl::Mutex mutex;
  std::vector<std::string> said;
  config.warn = [&](absl::string_view warning) {
    absl::MutexLock lock(&mutex);
    said.emplace_back(warning);
  };
  SeparateDevice first, second;
  std::vector<LocalEngine::Device> devices;
  devices.push_back({0, *backends::cpu::CpuBackend::Create({.device = &first})});
  devices.push_back({1, *backends::cpu::CpuBackend::Create({.device = &second})});
  ASSERT_OK_AND_ASSIGN(const auto engine,
                       LocalEngine::Create(config, std::move(devices), SystemClock()));
  EXPECT_OK(engine->Load());
  absl::MutexLock lock(&mutex);
  EXPECT_THAT(said, ElementsAre(AllOf(StartsWith("device 0: "), HasSubstr("ignored: note"))));
}

TEST(SeveralDevicesStartTest, TakesEqualDevicesOnly) {
  std::vector<LocalEngine::Device> devices;
  devices.push_back({0, *backends::cpu::CpuBackend::Create({.threads = 1})});
  devices.push_back({1, *backends::cpu::CpuBackend::Create({.threads = 2})});
  EXPECT_THAT(LocalEngine::Create(SmallConfig(), std::move(devices), SystemClock()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("devices 0 and 1 are not equal"), HasSubstr("threads-2"))));
}

TEST(SeveralDevicesStartTest, TheConfigurationNamesGpusOnceAndOfTheCudaBackendOnly) {
  const auto create = [](std::string backend, std::vector<int> devices) {
    Config config = SmallConfig();
    config.backend = std::move(backend);
    config.devices = std::move(devices);
    return Engine::Create(config, SystemClock()).status();
  };
  EXPECT_THAT(create("cpu", {0}), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("only with the cuda backend")));
  for (const auto& wrong : std::vector<std::vector<int>>{{0, 0}, {-1}, {1, -1}}) {
    EXPECT_THAT(create("cuda", wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from 0 on, each once")));
  }
}

TEST(SeveralDevicesStartTest, TheDefaultSchedulerIsOneThatThereIs) {
  Config config = SmallConfig();
  config.scheduler = "magic";
  EXPECT_THAT(Engine::Create(config, SystemClock()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dpmpp_2m_sde")));
}

TEST(SeveralDevicesStartTest, Tf32IsOfTheCudaBackendOnly) {
  Config config = SmallConfig();
  config.tf32 = true;
  EXPECT_THAT(
      Engine::Create(config, SystemClock()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tf32: only with the cuda backend")));
}

}  // namespace
}  // namespace latentd::engine
