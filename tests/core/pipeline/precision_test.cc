#include "core/pipeline/graphs/precision.h"

#include <cmath>

#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

using device::DType;
using graph::Precision;

const ComponentDTypes kAllF16 = {{"text_encoder", DType::kF16}, {"text_encoder_2", DType::kF16},
                                 {"unet_base", DType::kF16},    {"unet_refiner", DType::kF16},
                                 {"vae_decoder", DType::kF16},  {"vae_encoder", DType::kF16}};

VaeConfig Kl(bool force_upcast) {
  networks::AutoencoderKlConfig config;
  config.force_upcast = force_upcast;
  return config;
}

ComponentDTypes All(DType dtype) {
  ComponentDTypes all;
  for (absl::string_view component : kComponentNames) all[std::string(component)] = dtype;
  return all;
}

LoadOptions DemoIn(const ComponentDTypes& precision) {
  LoadOptions options = Demo();
  options.precision = precision;
  return options;
}

TEST(PrecisionOf, IsF32WhereNothingWasAsked) {
  for (absl::string_view component : kComponentNames) {
    EXPECT_EQ(PrecisionOf({}, component, Kl(true)), Precision{}) << component;
  }
}

TEST(PrecisionOf, IsOfOneComponentWhatWasAskedForIt) {
  const ComponentDTypes wanted = {{"unet_base", DType::kBF16}};
  EXPECT_EQ(PrecisionOf(wanted, "unet_base", Kl(true)), Precision{DType::kBF16});
  EXPECT_EQ(PrecisionOf(wanted, "unet_refiner", Kl(true)), Precision{});
}

TEST(PrecisionOf, KeepsWhatOverflowsInF16InF32WhereTheConfigForcesIt) {
  EXPECT_EQ(PrecisionOf(kAllF16, "vae_encoder", Kl(true)), Precision{});
  const Precision decoder = PrecisionOf(kAllF16, "vae_decoder", Kl(true));
  EXPECT_EQ(decoder.dtype, DType::kF16);
  EXPECT_THAT(decoder.f32_weights,
              ::testing::UnorderedElementsAre(
                  "vae/decoder.up_blocks.", "vae/decoder.conv_norm_out.", "vae/decoder.conv_out."));
  EXPECT_EQ(PrecisionOf(kAllF16, "unet_base", Kl(true)), Precision{DType::kF16});
}

TEST(PrecisionOf, ForcesNothingOfBf16NorOfAVaeThatDoesNotSaySo) {
  for (const char* component : {"vae_encoder", "vae_decoder"}) {
    EXPECT_EQ(PrecisionOf(All(DType::kBF16), component, Kl(true)), Precision{DType::kBF16});
    EXPECT_EQ(PrecisionOf(kAllF16, component, Kl(false)), Precision{DType::kF16});
    EXPECT_EQ(PrecisionOf(kAllF16, component, networks::AutoencoderTinyConfig()),
              Precision{DType::kF16});
  }
}

// Labels of the graphs that a bucket needs.
std::vector<std::string> Declared(const ComponentDTypes& precision) {
  const Rig rig(DemoIn(precision));
  const auto graphs = rig.pipeline->GraphsOf({}, {72, 64}, 2);
  EXPECT_OK(graphs);
  std::vector<std::string> lines;
  for (const compiler::GraphStatus& info : rig.graphs.List()) {
    lines.push_back(info.label.ToText());
  }
  return lines;
}

TEST(LesserPrecision, ComesWithAFallbackForTheDecoderInF16) {
  const std::vector<std::string> lines = Declared(kAllF16);
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_THAT(lines, IsSupersetOf({"base text_encoder_2 rows 1 f16", "base unet request rows 1 f16",
                                   "refiner unet step 72x64 rows 2 f16",
                                   "base vae_decoder 72x64 rows 1 f16",
                                   "base vae_decoder 72x64 rows 1 fallback",
                                   "base vae_encoder sample 72x64 rows 1"}));
}

TEST(LesserPrecision, NeedsNoFallbackInBf16WhichOverflowsWhereF32Does) {
  const std::vector<std::string> lines = Declared(All(DType::kBF16));
  EXPECT_EQ(lines.size(), 9u);
  EXPECT_THAT(
      lines,
      IsSupersetOf({"base text_encoder_2 rows 1 bf16", "base unet request rows 1 bf16",
                    "refiner unet step 72x64 rows 2 bf16", "base vae_decoder 72x64 rows 1 bf16",
                    "base vae_encoder 72x64 rows 1 bf16", "base vae_encoder sample 72x64 rows 1"}));
}

TEST(LesserPrecision, IsFp8InUnetsAlone) {
  ComponentDTypes precision = All(DType::kBF16);
  precision["unet_base"] = precision["unet_refiner"] = DType::kF8E4M3;
  EXPECT_THAT(Declared(precision), IsSupersetOf({"base text_encoder_2 rows 1 bf16",
                                                 "base unet step 72x64 rows 2 f8_e4m3",
                                                 "refiner unet step 72x64 rows 2 f8_e4m3",
                                                 "base vae_decoder 72x64 rows 1 bf16"}));
}

TEST(LesserPrecision, HasNoFallbackWhereTheDecoderIsInF32) {
  ComponentDTypes precision = All(DType::kF16);
  precision["vae_decoder"] = DType::kF32;
  const std::vector<std::string> lines = Declared(precision);
  EXPECT_EQ(lines.size(), 9u);
  EXPECT_THAT(lines,
              IsSupersetOf({"base unet step 72x64 rows 2 f16", "base vae_decoder 72x64 rows 1",
                            "base vae_encoder 72x64 rows 1"}));
}

// The root of the mean square of the difference of the latents, of that of the latents.
double RelativeDistance(const std::vector<float>& exact, const std::vector<float>& low) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (exact[i] - low[i]) * (exact[i] - low[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(difference / size);
}

TEST(LesserPrecision, DrawsNearlyTheSamePicture) {
  PictureSpec spec = SmallSpec();
  spec.refine = true;
  const std::vector<float> exact = Rig().Latents(spec);
  const double bf16 = RelativeDistance(exact, Rig(DemoIn(All(DType::kBF16))).Latents(spec));
  const double f16 = RelativeDistance(exact, Rig(DemoIn(kAllF16)).Latents(spec));
  EXPECT_LE(bf16, 0.1);
  EXPECT_LE(f16, 0.02);
  EXPECT_LT(f16, bf16);
  EXPECT_GT(f16, 0);
}

// Predicted bytes of the weights of a step.
int64_t StepWeightBytes(const ComponentDTypes& precision) {
  Rig rig(DemoIn(precision));
  const GraphHandle step = rig.pipeline->first().graphs().Find({.shape = {1, 8, 8}}).value();
  int64_t bytes = 0;
  const backends::MemoryNeeds needs = rig.graphs.Predict(step).value();
  for (const auto& [key, size] : needs.weights) {
    bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

TEST(LesserPrecision, HoldsHalfOfTheWeightsBytes) {
  EXPECT_NEAR(static_cast<double>(StepWeightBytes(All(DType::kBF16))) /
                  static_cast<double>(StepWeightBytes({})),
              0.5, 0.01);
}

TEST(LesserPrecision, CountsInWhatTheWeightsNeed) {
  LoadOptions options = Demo();
  options.memory_bytes = 1;
  Rig stores;
  const auto needed = [&](const ComponentDTypes& precision) {
    options.precision = precision;
    return std::string(LoadPipeline(options, stores.weights, stores.graphs).status().message());
  };
  EXPECT_THAT(needed({}), HasSubstr("the weights need "));
  EXPECT_NE(needed({}), needed(All(DType::kBF16)));
  EXPECT_EQ(needed(kAllF16), needed(All(DType::kBF16)));
  EXPECT_NE(needed({{"unet_base", DType::kBF16}}), needed({{"unet_refiner", DType::kBF16}}));
  const std::string bf16 = needed(All(DType::kBF16));
  options.holds_fp16_in_fp32 = true;
  EXPECT_EQ(needed(kAllF16), needed({}));
  EXPECT_EQ(needed(All(DType::kBF16)), bf16);
}

}  // namespace
}  // namespace latentd::pipeline
