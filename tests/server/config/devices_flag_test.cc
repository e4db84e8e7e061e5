// --devices, from the words on the command line to what the engine is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/flag_values.h"
#include "server/config/options.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<std::vector<int>> Given(const std::vector<std::string>& flags) {
  latent::v1::ServerConfig config = DefaultConfig();
  const auto line = ParseCommandLine(flags);
  EXPECT_OK(line);
  config.MergeFrom(line->flags);
  const auto options = ToOptions(config);
  if (!options.ok()) return options.status();
  return options->engine.devices;
}

TEST(DevicesFlagTest, NamesThemInTheirOrder) {
  EXPECT_THAT(*Given({"--backend=cuda", "--devices=1, 0"}), ElementsAre(1, 0));
  EXPECT_THAT(*Given({"--devices=3", "--backend=cuda"}), ElementsAre(3));
}

TEST(DevicesFlagTest, AreTheFirstWhereNoneIsNamed) {
  EXPECT_THAT(*Given({"--backend=cuda"}), IsEmpty());
  EXPECT_THAT(*Given({"--devices="}), IsEmpty());
  EXPECT_THAT(PrintConfig(DefaultConfig()), ::testing::Not(HasSubstr("devices")));
}

TEST(DevicesFlagTest, AreOfGpusOnly) {
  EXPECT_THAT(Given({"--devices=0,1"}),
              StatusIs(kInvalid, HasSubstr("--devices=0,1: must be given together with "
                                           "--backend=cuda")));
  EXPECT_THAT(Given({"--devices=0", "--backend=reference"}),
              StatusIs(kInvalid, HasSubstr("--backend=cuda")));
}

TEST(DevicesFlagTest, WrongValuesAreNamedWithWhatIsRight) {
  for (const char* text : {"-1", "gpu", "0,", "0;1", "1.5", "99999999999"}) {
    EXPECT_THAT(ToDevices("devices", text),
                StatusIs(kInvalid, AllOf(HasSubstr("--devices="), HasSubstr("such as 0,1"))))
        << text;
  }
  EXPECT_THAT(ToDevices("devices", "0,1,0"),
              StatusIs(kInvalid, HasSubstr("--devices=0: must be named once")));
}

}  // namespace
}  // namespace latentd::server::config
