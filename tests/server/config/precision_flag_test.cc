// --precision, from the words on the command line to what the engine is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
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
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

using engine::DType;
using DTypes = std::map<std::string, DType>;

constexpr size_t kComponents = std::size(engine::kComponentNames);

absl::StatusOr<Precision> Read(const std::string& text) {
  return ToPrecision("precision", text, "bf16");
}

latent::v1::ServerConfig ConfigOf(const std::vector<std::string>& flags) {
  latent::v1::ServerConfig config = DefaultConfig();
  const auto line = ParseCommandLine(flags);
  EXPECT_OK(line);
  config.MergeFrom(line->flags);
  return config;
}

DTypes Given(const std::vector<std::string>& flags) {
  const auto options = ToOptions(ConfigOf(flags));
  EXPECT_OK(options);
  return options->engine.precision;
}

std::string Printed(const std::vector<std::string>& flags) {
  latent::v1::ServerConfig config = ConfigOf(flags);
  SetDefaultPrecision(config);
  return PrintConfig(config);
}

auto EveryComponentIn(DType dtype) {
  return AllOf(SizeIs(kComponents), Each(Pair(::testing::_, dtype)));
}

TEST(PrecisionFlagTest, OneWordIsForEveryComponent) {
  EXPECT_THAT(Given({"--precision=bf16"}), EveryComponentIn(DType::kBF16));
  EXPECT_THAT(Given({"--precision=fp16"}), EveryComponentIn(DType::kF16));
}

TEST(PrecisionFlagTest, WhereItIsNotGivenItIsWhatSuitsTheBackend) {
  for (const char* backend : {"--backend=cpu", "--backend=reference"}) {
    EXPECT_THAT(Given({backend}), EveryComponentIn(DType::kF32));
    EXPECT_THAT(Printed({backend}), HasSubstr("precision: \"fp32\""));
  }
  for (const char* none : {"--base=/b", "--precision="}) {
    EXPECT_THAT(Given({none}), EveryComponentIn(DType::kF32));
    EXPECT_THAT(Printed({none}), HasSubstr("precision: \"fp32\""));
    EXPECT_THAT(Given({none, "--backend=cuda"}), EveryComponentIn(DType::kBF16));
    EXPECT_THAT(Printed({none, "--backend=cuda"}), HasSubstr("precision: \"bf16\""));
  }
}

TEST(PrecisionFlagTest, WhatIsGivenWinsWhateverTheBackend) {
  EXPECT_THAT(Given({"--backend=cuda", "--precision=fp32"}), EveryComponentIn(DType::kF32));
  EXPECT_THAT(Printed({"--backend=cuda", "--precision=fp32"}), HasSubstr("precision: \"fp32\""));
  EXPECT_THAT(Given({"--backend=cpu", "--precision=bf16"}), EveryComponentIn(DType::kBF16));
}

TEST(PrecisionFlagTest, WhatIsNotNamedIsInTheDefault) {
  const DTypes on_cpu = Given({"--precision=unet_base=bf16,vae_decoder=fp16"});
  EXPECT_THAT(on_cpu, SizeIs(kComponents));
  EXPECT_EQ(on_cpu.at("unet_base"), DType::kBF16);
  EXPECT_EQ(on_cpu.at("vae_decoder"), DType::kF16);
  EXPECT_EQ(on_cpu.at("text_encoder"), DType::kF32);
  const DTypes on_gpu = Given({"--backend=cuda", "--precision=vae_decoder=fp32"});
  EXPECT_THAT(on_gpu, SizeIs(kComponents));
  EXPECT_EQ(on_gpu.at("vae_decoder"), DType::kF32);
  EXPECT_EQ(on_gpu.at("unet_base"), DType::kBF16);
}

TEST(PrecisionFlagTest, AComponentsOwnWinsOverThatOfAllWhereverItStands) {
  for (const char* text : {"bf16,vae_decoder=fp32", "vae_decoder=fp32,bf16"}) {
    ASSERT_OK_AND_ASSIGN(const Precision read, Read(text));
    EXPECT_THAT(read.components, SizeIs(kComponents));
    EXPECT_EQ(read.components.at("vae_decoder"), DType::kF32);
    EXPECT_EQ(read.components.at("vae_encoder"), DType::kBF16);
    EXPECT_FALSE(read.tf32);
  }
}

TEST(PrecisionFlagTest, Tf32IsFloat32ThatIsRoundedBeforeItIsMultiplied) {
  ASSERT_OK_AND_ASSIGN(const Precision all, Read("tf32"));
  EXPECT_THAT(all.components, EveryComponentIn(DType::kF32));
  EXPECT_TRUE(all.tf32);
  for (const char* text : {"bf16,vae_decoder=tf32", "vae_decoder=tf32"}) {
    ASSERT_OK_AND_ASSIGN(const Precision one, Read(text));
    EXPECT_EQ(one.components.at("vae_decoder"), DType::kF32);
    EXPECT_EQ(one.components.at("unet_base"), DType::kBF16);
    EXPECT_TRUE(one.tf32);
  }
}

TEST(PrecisionFlagTest, OneServerHasNoFloat32BesideTf32) {
  for (const char* text : {"tf32,vae_decoder=fp32", "vae_decoder=tf32,fp32",
                           "bf16,vae_decoder=tf32,vae_encoder=fp32"}) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr(text), HasSubstr("fp32 or tf32, not both"))));
  }
}

TEST(PrecisionFlagTest, Fp8AllIsFp8WithConvolutions) {
  for (const char* text : {"fp8_all", "unet_base=fp8_all", "bf16,unet_refiner=fp8_all"}) {
    ASSERT_OK_AND_ASSIGN(const Precision read, Read(text));
    EXPECT_TRUE(read.f8_convolutions) << text;
    EXPECT_NE(read.components.at("vae_decoder"), DType::kF8E4M3) << text;
  }
  ASSERT_OK_AND_ASSIGN(const Precision all, Read("fp8_all"));
  EXPECT_EQ(all.components.at("unet_base"), DType::kF8E4M3);
  EXPECT_EQ(all.components.at("vae_decoder"), DType::kBF16);
  ASSERT_OK_AND_ASSIGN(const Precision linears, Read("fp8"));
  EXPECT_FALSE(linears.f8_convolutions);
  EXPECT_EQ(linears.components, all.components);
  EXPECT_THAT(Read("unet_base=fp8,unet_refiner=fp8_all"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fp8 or fp8_all, not both")));
  EXPECT_THAT(Read("vae_decoder=fp8_all"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bf16 is the word")));
}

TEST(PrecisionFlagTest, Fp8AllReachesTheEngine) {
  ASSERT_OK_AND_ASSIGN(const Options all,
                       ToOptions(ConfigOf({"--backend=cuda", "--precision=fp8_all"})));
  EXPECT_TRUE(all.engine.f8_convolutions);
  ASSERT_OK_AND_ASSIGN(const Options linears,
                       ToOptions(ConfigOf({"--backend=cuda", "--precision=fp8"})));
  EXPECT_FALSE(linears.engine.f8_convolutions);
  EXPECT_THAT(ToOptions(ConfigOf({"--backend=cpu", "--precision=fp8_all"})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no 8-bit products")));
}

TEST(PrecisionFlagTest, Tf32IsOfTheCudaBackend) {
  ASSERT_OK_AND_ASSIGN(const Options on_gpu,
                       ToOptions(ConfigOf({"--backend=cuda", "--precision=tf32"})));
  EXPECT_TRUE(on_gpu.engine.tf32);
  ASSERT_OK_AND_ASSIGN(const Options without,
                       ToOptions(ConfigOf({"--backend=cuda", "--precision=fp32"})));
  EXPECT_FALSE(without.engine.tf32);
  for (const char* backend : {"--backend=cpu", "--backend=reference"}) {
    for (const char* precision : {"--precision=tf32", "--precision=bf16,vae_decoder=tf32"}) {
      EXPECT_THAT(ToOptions(ConfigOf({backend, precision})),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(precision), HasSubstr("--backend=cuda"))));
    }
  }
}

TEST(PrecisionFlagTest, Fp8IsOfUnetsAndTheOthersAreInBf16BesideIt) {
  const DTypes all = Given({"--backend=cuda", "--precision=fp8"});
  EXPECT_THAT(all, SizeIs(kComponents));
  for (const auto& [component, dtype] : all) {
    const bool unet = component == "unet_base" || component == "unet_refiner";
    EXPECT_EQ(dtype, unet ? DType::kF8E4M3 : DType::kBF16) << component;
  }
  const DTypes one = Given({"--backend=reference", "--precision=unet_base=fp8"});
  EXPECT_EQ(one.at("unet_base"), DType::kF8E4M3);
  EXPECT_EQ(one.at("unet_refiner"), DType::kF32);
  EXPECT_EQ(one.at("vae_decoder"), DType::kF32);
  const DTypes mixed = Given({"--backend=cuda", "--precision=fp8,vae_decoder=fp32"});
  EXPECT_EQ(mixed.at("vae_decoder"), DType::kF32);
  EXPECT_EQ(mixed.at("text_encoder"), DType::kBF16);
  EXPECT_THAT(Read("vae_decoder=fp8"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("vae_decoder=fp8"),
                             HasSubstr("fp8 for all components or for a UNet"))));
}

TEST(PrecisionFlagTest, ProcessorsHaveNoFp8) {
  for (const char* precision : {"--precision=fp8", "--precision=unet_refiner=fp8"}) {
    EXPECT_THAT(ToOptions(ConfigOf({"--backend=cpu", precision})),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(precision), HasSubstr("--backend=cuda"),
                               HasSubstr("processors have no 8-bit products"))));
  }
}

TEST(PrecisionFlagTest, WrongValuesAreNamedWithWhatIsRight) {
  for (const char* text : {"fp4", "float16", "unet=bf16", "unet_base=half", "unet_base=", "=bf16",
                           "unet_base=bf16=fp16", "bf16,", "bf16 fp16"}) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("--precision="),
                                           HasSubstr("fp32, bf16, fp16, fp8, fp8_all, tf32"),
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
