#include "core/pipeline/graphs/vae_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/weights/weight_store.h"
#include "tests/support/run_unit.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr int64_t kChannels = 4, kHeight = 5, kWidth = 7;
const Shape kLatentShape{1, kChannels, kHeight, kWidth}, kMask{1, 1, kHeight, kWidth};

std::vector<float> Random(int64_t size, float largest, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-largest, largest);
  std::vector<float> result(size);
  for (float& value : result) value = values(random);
  return result;
}

Buffer Wrap(std::vector<float>& values, const Shape& shape) {
  return Buffer::Wrap(values.data(), DType::kF32, shape, nullptr);
}

struct SampleRun {
  std::vector<std::string> inputs;  // names
  std::vector<float> latents;
};

SampleRun RunSample(const VaeConfig& config, const NamedBuffers& inputs) {
  const auto graph =
      std::make_shared<const graph::Graph>(MakeSampleGraph(config, kHeight, kWidth).value());
  const auto backend = backends::cpu::CpuBackend::Create().value();
  weights::WeightStore store(*backend);
  const std::shared_ptr<backends::Executable> executable =
      backend->Load(graph, backend->MakePlan(*graph).value(), weights::WeightSet(&store)).value();
  SampleRun run;
  for (const backends::Port& port : executable->inputs()) run.inputs.push_back(port.name);
  const Buffer latents = testing::RunNamed(executable, inputs, {"latents"}).value().at("latents");
  run.latents.assign(latents.as<float>().begin(), latents.as<float>().end());
  return run;
}

// To the bit, so that a seed keeps its picture, and a mask what it covers.
TEST(SampleGraphTest, DrawsFromADistributionAndAddsNoise) {
  networks::AutoencoderKlConfig config;
  config.latent_channels = kChannels;
  config.scaling_factor = 0.13025;
  config.shift_factor = 0.25;
  const int64_t size = kLatentShape.elements();
  // Log variances beyond what they are clamped to, too.
  std::vector<float> moments = Random(2 * size, 40, 1), drawn = Random(size, 3, 2),
                     noise = Random(size, 3, 3), image_scale = {0.7f}, noise_scale = {0.3f},
                     drawn_over = Random(size, 3, 4), mask(kMask.elements());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0 ? 1.0f : 0.0f;
  const SampleRun run =
      RunSample(config, {{"moments", Wrap(moments, {1, 2 * kChannels, kHeight, kWidth})},
                         {"sample_noise", Wrap(drawn, kLatentShape)},
                         {"noise", Wrap(noise, kLatentShape)},
                         {"image_scale", Wrap(image_scale, {1})},
                         {"noise_scale", Wrap(noise_scale, {1})},
                         {"mask", Wrap(mask, kMask)},
                         {"drawn", Wrap(drawn_over, kLatentShape)}});
  std::vector<float> expected;
  for (int64_t i = 0; i < size; ++i) {
    const float deviation = std::exp(0.5f * std::clamp(moments[size + i], -30.0f, 20.0f));
    const float sample = moments[i] + deviation * drawn[i];
    const float latent = (sample - 0.25f) * 0.13025f;
    const bool masked = mask[i % mask.size()] == 1;
    expected.push_back(masked ? drawn_over[i] : 0.7f * latent + 0.3f * noise[i]);
  }
  EXPECT_THAT(run.latents, ElementsAreArray(expected));
}

TEST(SampleGraphTest, TakesAutoencoderTinysLatentsAsTheyAre) {
  networks::AutoencoderTinyConfig config;
  config.latent_channels = kChannels;
  config.scaling_factor = 2;
  EXPECT_FALSE(IsDistribution(config));
  std::vector<float> latents = Random(kLatentShape.elements(), 3, 1), noise(latents.size()),
                     image_scale = {1}, noise_scale = {0}, mask(kMask.elements()),
                     drawn(latents.size());
  const SampleRun run = RunSample(config, {{"moments", Wrap(latents, kLatentShape)},
                                           {"noise", Wrap(noise, kLatentShape)},
                                           {"image_scale", Wrap(image_scale, {1})},
                                           {"noise_scale", Wrap(noise_scale, {1})},
                                           {"mask", Wrap(mask, kMask)},
                                           {"drawn", Wrap(drawn, kLatentShape)}});
  EXPECT_THAT(run.inputs,
              ElementsAre("moments", "noise", "image_scale", "noise_scale", "mask", "drawn"));
  for (float& latent : latents) latent *= 2;
  EXPECT_THAT(run.latents, ElementsAreArray(latents));
}

}  // namespace
}  // namespace latentd::pipeline
