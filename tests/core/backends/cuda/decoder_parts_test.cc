// The decoder of videos in parts, on a GPU: the bytes of the decoder as a whole. Passes fuse over
// what is the border of two parts there, and choose layouts and kernels for each part alone.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/families/svd/video_graphs.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/backends/cuda/gpu_array.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using device::Buffer;
using device::DType;
using families::svd::VideoConfigs;
using families::svd::VideoShape;

VideoConfigs DecoderConfigs() {
  VideoConfigs configs;
  configs.vae.block_out_channels = {64, 128, 128, 256};
  configs.vae.layers_per_block = 2;
  return configs;
}

// Numbers of any kind, under which norms and convolutions stay finite.
weights::TensorMap DecoderWeights(const graph::Graph& whole) {
  weights::TensorMap tensors;
  for (const graph::ValueId id : whole.Select(graph::Op::kWeight)) {
    const graph::Node& weight = whole.node(id);
    std::mt19937 random(static_cast<unsigned>(id));
    tensors[absl::StripPrefix(weight.name, "vae/")] = {
        testing::RandomBuffer("net/scaled", weight.dtype, weight.shape, random), "made up"};
  }
  return tensors;
}

bool HaveEqualBytes(const Buffer& a, const Buffer& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

struct ChunkCase {
  DType dtype;
  VideoShape chunk;
};

class DecoderPartsGpuTest : public kernels::GpuTest,
                            public ::testing::WithParamInterface<ChunkCase> {
 protected:
  void SetUp() override {
    kernels::GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_OK_AND_ASSIGN(backend_, CudaBackend::Create());
    store_ = std::make_unique<weights::WeightStore>(*backend_);
    weights_ = std::make_unique<weights::WeightSet>(store_.get());
  }

  absl::StatusOr<std::vector<Buffer>> Run(const absl::StatusOr<graph::Graph>& graph,
                                          const Buffer& input) {
    if (!graph.ok()) return graph.status();
    auto chosen = passes::ChoosePrecision(*graph, {GetParam().dtype});
    if (!chosen.ok()) return chosen.status();
    auto passed = passes::RunPasses(*chosen, backend_->target());
    if (!passed.ok()) return passed.status();
    return testing::RunGraph(*backend_, std::make_shared<const graph::Graph>(*std::move(passed)),
                             *weights_, {input});
  }

  const VideoConfigs configs_ = DecoderConfigs();
  std::unique_ptr<CudaBackend> backend_;
  std::unique_ptr<weights::WeightStore> store_;
  std::unique_ptr<weights::WeightSet> weights_;
};

TEST_P(DecoderPartsGpuTest, GiveTheBytesOfTheWhole) {
  const auto& [dtype, chunk] = GetParam();
  ASSERT_OK_AND_ASSIGN(const graph::Graph whole, families::svd::MakeFramesGraph(configs_, chunk));
  weights_->Add("vae", DecoderWeights(whole));
  std::mt19937 random(3);
  const Buffer latents = testing::RandomBuffer(
      "latents", DType::kF32,
      {chunk.frames, configs_.vae.latent_channels, chunk.height, chunk.width}, random);
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, Run(whole, latents));
  std::vector<Buffer> given = {latents};
  for (int part = 1; part <= 3; ++part) {
    ASSERT_OK_AND_ASSIGN(
        given,
        Run(families::svd::MakeFramesPartGraph(configs_, chunk, part, dtype), given.front()));
    EXPECT_EQ(given.front().dtype(), part < 3 ? dtype : DType::kU8);
  }
  ASSERT_EQ(expected.size(), 2u);
  ASSERT_EQ(given.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(HaveEqualBytes(given[i], expected[i])) << i;
  EXPECT_EQ(expected[1].as<uint8_t>()[0], 1);  // finite
}

INSTANTIATE_TEST_SUITE_P(Chunks, DecoderPartsGpuTest,
                         ::testing::Values(ChunkCase{DType::kBF16, {1, 5, 9, 16}},
                                           ChunkCase{DType::kF16, {1, 5, 9, 16}},
                                           ChunkCase{DType::kF32, {1, 5, 9, 16}},
                                           ChunkCase{DType::kBF16, {1, 1, 8, 8}},
                                           ChunkCase{DType::kBF16, {1, 7, 24, 40}}),
                         [](const auto& info) {
                           const VideoShape& chunk = info.param.chunk;
                           return std::string(device::Name(info.param.dtype)) + "_" +
                                  std::to_string(chunk.frames) + "_" +
                                  std::to_string(chunk.height) + "_" + std::to_string(chunk.width);
                         });

}  // namespace
}  // namespace latentd::backends::cuda
