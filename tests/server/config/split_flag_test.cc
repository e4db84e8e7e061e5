// --split, from the words on the command line to what the engine is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/flag_values.h"
#include "server/config/options.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<engine::Split> SplitOf(const std::vector<std::string>& flags) {
  latent::v1::ServerConfig config = DefaultConfig();
  const auto line = ParseCommandLine(flags);
  EXPECT_OK(line);
  config.MergeFrom(line->flags);
  const auto options = ToOptions(config);
  if (!options.ok()) return options.status();
  return options->engine.split;
}

TEST(SplitFlagTest, IsNeverWhereItIsNotGiven) {
  EXPECT_EQ(*SplitOf({"--backend=cuda", "--devices=0,1"}), engine::Split::kNever);
  EXPECT_EQ(*SplitOf({}), engine::Split::kNever);
  EXPECT_EQ(*SplitOf({"--split=never"}), engine::Split::kNever);
}

TEST(SplitFlagTest, IsOfSeveralDevices) {
  EXPECT_EQ(*SplitOf({"--backend=cuda", "--devices=0,1", "--split=auto"}), engine::Split::kAuto);
  EXPECT_EQ(*SplitOf({"--backend=cuda", "--devices=2,3", "--split=always"}),
            engine::Split::kAlways);
  for (const char* devices : {"--devices=", "--devices=1"}) {
    EXPECT_THAT(SplitOf({"--backend=cuda", devices, "--split=auto"}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--split=auto: must be given together with several --devices")))
        << devices;
  }
}

TEST(SplitFlagTest, WrongValuesAreNamedWithWhatIsRight) {
  for (const char* text : {"yes", "Auto", "1", "auto,always"}) {
    EXPECT_THAT(ToSplit("split", text), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("must be never, auto or always")))
        << text;
  }
}

}  // namespace
}  // namespace latentd::server::config
