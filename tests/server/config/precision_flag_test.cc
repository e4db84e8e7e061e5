// --precision, from the words on the command line to what the engine is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>

#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/flag_values.h"
#include "server/config/options.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

using engine::DType;
using DTypes = std::map<std::string, DType>;

constexpr size_t kComponents = std::size(engine::kComponentNames);

absl::StatusOr<DTypes> Read(const std::string& text) { return ToPrecision("precision", text); }

DTypes Given(const std::string& flag) {
  latent::v1::ServerConfig config = DefaultConfig();
  const auto line = ParseCommandLine({flag});
  EXPECT_OK(line);
  config.MergeFrom(line->flags);
  const auto options = ToOptions(config);
  EXPECT_OK(options);
  return options->engine.precision;
}

TEST(PrecisionFlagTest, OneWordIsForEveryComponent) {
  EXPECT_THAT(Given("--precision=bf16"),
              AllOf(SizeIs(kComponents), Each(Pair(::testing::_, DType::kBF16))));
  EXPECT_THAT(Given("--precision=fp16"),
              AllOf(SizeIs(kComponents), Each(Pair(::testing::_, DType::kF16))));
}

TEST(PrecisionFlagTest, IsFp32WhereItIsNotGiven) {
  EXPECT_THAT(Given("--base=/b"),
              AllOf(SizeIs(kComponents), Each(Pair(::testing::_, DType::kF32))));
  EXPECT_THAT(PrintConfig(DefaultConfig()), HasSubstr("precision: \"fp32\""));
}

TEST(PrecisionFlagTest, NamesSingleComponents) {
  EXPECT_THAT(Given("--precision=unet_base=bf16,vae_decoder=fp32"),
              ElementsAre(Pair("unet_base", DType::kBF16), Pair("vae_decoder", DType::kF32)));
}

TEST(PrecisionFlagTest, AComponentsOwnWinsOverThatOfAllWhereverItStands) {
  for (const char* text : {"bf16,vae_decoder=fp32", "vae_decoder=fp32,bf16"}) {
    ASSERT_OK_AND_ASSIGN(const DTypes read, Read(text));
    EXPECT_THAT(read, SizeIs(kComponents));
    EXPECT_EQ(read.at("vae_decoder"), DType::kF32);
    EXPECT_EQ(read.at("vae_encoder"), DType::kBF16);
  }
}

TEST(PrecisionFlagTest, WrongValuesAreNamedWithWhatIsRight) {
  for (const char* text : {"fp8", "float16", "unet=bf16", "unet_base=half", "unet_base=", "=bf16",
                           "unet_base=bf16=fp16", "bf16,", "bf16 fp16"}) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("--precision="), HasSubstr("fp32, bf16, fp16"),
                                           HasSubstr("text_encoder, text_encoder_2, unet_base"))))
        << text;
  }
  EXPECT_THAT(Read("bf16,fp16"), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("the only precision of all components")));
  EXPECT_THAT(Read("unet_base=bf16,unet_base=bf16"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the only precision of that component")));
}

}  // namespace
}  // namespace latentd::server::config
