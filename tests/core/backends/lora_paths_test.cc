// Matrices and scales of LoRAs in a slot, as graphs of the files' tensors make them.
#include "core/adapters/lora/lora_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/reference/evaluate.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using adapters::IsPlain;
using adapters::Lora;
using adapters::LowRank;
using adapters::PathMatrices;
using adapters::PathScales;
using adapters::WeightChange;
using adapters::WeightedLora;
using device::Buffer;
using device::DType;
using device::Shape;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

// Numbers from `first` on.
weights::StoredTensor CountedFrom(float first, const Shape& shape) {
  const Buffer data = Buffer::Allocate(DType::kF32, shape);
  std::iota(data.as<float>().begin(), data.as<float>().end(), first);
  return {.data = data, .file = "counted"};
}

WeightChange ChangeOf(const std::string& weight, int64_t rank, float first, double scale = 1) {
  return {.weight = weight,
          .shape = {3, 2},
          .delta = LowRank{CountedFrom(first, {rank, 2}), CountedFrom(first + 50, {3, rank}), {}},
          .scale = scale,
          .magnitude = {}};
}

WeightedLora LoraOf(std::vector<WeightChange> changes, double unet = 1) {
  return {std::make_shared<const Lora>(Lora{.name = "film", .changes = std::move(changes)}), unet};
}

const std::vector<graph::PathSite> kSites = {{"unet/a.weight", 2, 3}, {"unet/b.weight", 2, 3}};

std::vector<float> MatricesOf(const std::vector<WeightedLora>& loras, int64_t ranks) {
  const auto source = PathMatrices(loras, kSites, ranks, DType::kF32);
  EXPECT_OK(source);
  std::vector<device::ConstBuffer> tensors;
  for (const weights::StoredTensor& tensor : source->from) tensors.push_back(tensor.data);
  const auto made = reference::EvaluateRecipe(*source->make, tensors);
  EXPECT_OK(made);
  const auto values = made->as<float>();
  return {values.begin(), values.end()};
}

TEST(LoraPaths, HaveZerosBehindTheirRanks) {
  const std::vector<float> made = MatricesOf({LoraOf({ChangeOf("unet/b.weight", 1, 1)})}, 2);
  ASSERT_EQ(made.size(), 2u * (2 * 2 + 3 * 2));
  EXPECT_THAT(std::vector<float>(made.begin(), made.begin() + 10), Each(0));
  EXPECT_THAT(std::vector<float>(made.begin() + 10, made.end()),
              ElementsAre(1, 2, 0, 0, 51, 0, 52, 0, 53, 0));
}

TEST(LoraPaths, AreBesideEachOtherAtASite) {
  const std::vector<WeightedLora> loras = {
      LoraOf({ChangeOf("unet/a.weight", 1, 1, 0.5)}, 3),
      LoraOf({ChangeOf("unet/a.weight", 1, 11), ChangeOf("unet/b.weight", 1, 21)}, -2)};
  const std::vector<float> made = MatricesOf(loras, 2);
  EXPECT_THAT(std::vector<float>(made.begin(), made.begin() + 10),
              ElementsAre(1, 2, 11, 12, 51, 61, 52, 62, 53, 63));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> scales, PathScales(loras, kSites, 2));
  EXPECT_THAT(scales, ElementsAre(1.5f, -2, -2, 0));
}

TEST(LoraPaths, RefuseMoreRanksThanThereAre) {
  EXPECT_THAT(PathMatrices({LoraOf({ChangeOf("unet/b.weight", 3, 1)})}, kSites, 2, DType::kF32),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unet/b.weight: 3 ranks")));
}

TEST(LoraPaths, RefuseFactorsBeyondFloat32) {
  EXPECT_THAT(PathScales({LoraOf({ChangeOf("unet/a.weight", 1, 1, 1e30)}, 1e30)}, kSites, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beyond float32")));
}

TEST(IsPlain, IsTrueOfProductsBesideLinearsAlone) {
  const WeightChange plain = ChangeOf("unet/a.weight", 1, 1);
  EXPECT_TRUE(IsPlain({.name = "film", .changes = {plain}}));
  WeightChange convolution = plain, dora = plain, full = plain;
  convolution.shape = {3, 2, 1, 1};
  dora.magnitude = adapters::Magnitude{CountedFrom(1, {3})};
  full.delta = adapters::Difference{CountedFrom(1, {3, 2})};
  for (const WeightChange& other : {convolution, dora, full}) {
    EXPECT_FALSE(IsPlain({.name = "film", .changes = {plain, other}}));
  }
}

}  // namespace
}  // namespace latentd::backends
