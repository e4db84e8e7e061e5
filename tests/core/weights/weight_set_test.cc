#include "core/weights/weight_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

StoredTensor Tensor(DType dtype, Shape shape) {
  return {Buffer::Allocate(dtype, std::move(shape)), "/c/vae/x.safetensors"};
}

WeightSet SetOf(const std::string& component, const TensorMap& tensors) {
  WeightSet set(nullptr);
  set.Add(component, tensors);
  return set;
}

// A graph that wants these weights and nothing else.
graph::Graph Wants(const std::vector<std::pair<std::string, Shape>>& weights,
                   DType dtype = DType::kF32) {
  graph::GraphBuilder builder;
  int count = 0;
  for (const auto& [name, shape] : weights) {
    builder.Output(absl::StrCat(count++), testing::StoredWeight(builder, name, dtype, shape));
  }
  return *std::move(builder).Build();
}

TEST(WeightSetTest, FindsTensorsByComponentAndName) {
  const WeightSet set = SetOf("vae", {{"conv.bias", Tensor(DType::kF16, {3})}});
  ASSERT_OK_AND_ASSIGN(const Source source, set.Find("vae/conv.bias"));
  EXPECT_EQ(source.shape(), Shape({3}));
  EXPECT_EQ(source.dtype(), DType::kF16);
  EXPECT_THAT(set.Find("unet/conv.bias"), Not(IsOk()));
}

TEST(WeightSetTest, NamesWhatIsMissingAndWhere) {
  const WeightSet set = SetOf("vae", {{"conv.bias", Tensor(DType::kF16, {3})}});
  EXPECT_THAT(set.Find("vae/conv.weight"),
              StatusIs(absl::StatusCode::kNotFound, "tensor vae/conv.weight is missing in /c/vae"));
}

TEST(WeightSetTest, TensorsOfUnusableDTypesHarmOnlyWhoWantsThem) {
  StoredTensor whole{Buffer::Wrap(nullptr, DType::kU8, {3}, nullptr), "f", "I32"};
  const WeightSet set = SetOf("vae", {{"a", Tensor(DType::kF32, {3})}, {"whole", whole}});
  EXPECT_THAT(set.Check(Wants({{"vae/a", {3}}})), IsOk());
  EXPECT_THAT(set.Check(Wants({{"vae/whole", {3}}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("vae/whole"), HasSubstr("I32"))));
}

// As ComfyUI writes 8-bit floats, in older and newer files.
TEST(WeightSetTest, EightBitFloatsAreMultipliedByTheScaleBesideThem) {
  for (const std::string scale : {"to_q.scale_weight", "to_q.weight_scale"}) {
    for (const Shape& shape : {Shape(), Shape({1}), Shape({1, 1})}) {
      const WeightSet set = SetOf("unet", {{"to_q.weight", Tensor(DType::kF8E4M3, {2, 3})},
                                           {"to_k.weight", Tensor(DType::kF8E4M3, {2, 3})},
                                           {scale, Tensor(DType::kF32, shape)}});
      EXPECT_THAT(set.Check(Wants({{"unet/to_q.weight", {2, 3}}, {"unet/to_k.weight", {2, 3}}})),
                  IsOk());
      ASSERT_OK_AND_ASSIGN(const Source scaled, set.Find("unet/to_q.weight"));
      ASSERT_NE(scaled.make, nullptr);
      EXPECT_THAT(graph::ToText(*scaled.make), HasSubstr("mul("));
      EXPECT_EQ(scaled.shape(), Shape({2, 3}));
      ASSERT_OK_AND_ASSIGN(const Source plain, set.Find("unet/to_k.weight"));
      EXPECT_EQ(plain.make, nullptr);
    }
  }
}

// Blocks of numbers have a scale each; without them the weight would be noise.
TEST(WeightSetTest, EightBitFloatsWithAnotherKindOfScaleAreNotUsed) {
  StoredTensor exponents{Buffer::Wrap(nullptr, DType::kU8, {1}, nullptr), "f", "F8_E8M0"};
  const StoredTensor scales[] = {Tensor(DType::kF32, {2, 1}), exponents};
  for (const StoredTensor& scale : scales) {
    const WeightSet set = SetOf("unet", {{"to_q.weight", Tensor(DType::kF8E5M2, {2, 3})},
                                         {"to_q.bias", Tensor(DType::kF16, {2})},
                                         {"to_q.weight_scale", scale}});
    EXPECT_THAT(set.Check(Wants({{"unet/to_q.weight", {2, 3}}})),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("unet/to_q.weight"),
                               HasSubstr("f8_e5m2 with the scale to_q.weight_scale"))));
    EXPECT_THAT(set.Check(Wants({{"unet/to_q.bias", {2}}})), IsOk());
  }
}

// Results of torch 2.11 for these doubles; they lie at an odd address, behind a byte.
TEST(WeightSetTest, RoundsDoublesAsTorchDoes) {
  const double doubles[] = {1 + 0x1p-24, 1 + 0x1.8p-23, -0.0, 0x1.8p-149, 0x1p-151, 1e300, 0.1};
  const float rounded[] = {1, 1 + 0x1p-22f, -0.0f, 0x1p-148f, 0, INFINITY, 0.1f};
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("doubles.safetensors");
  const std::string bytes(reinterpret_cast<const char*>(doubles), sizeof(doubles));
  testing::WriteFile(
      path, testing::SafetensorsBytes({{"byte", "U8", {1}, "x"}, {"doubles", "F64", {7}, bytes}}));
  const WeightSet set = SetOf("vae", *ReadSafetensors(path));
  EXPECT_THAT(set.Check(Wants({{"vae/doubles", {7}}})), IsOk());
  ASSERT_OK_AND_ASSIGN(const Source source, set.Find("vae/doubles"));
  EXPECT_EQ(source.dtype(), DType::kF32);
  const StoredTensor& found = source.from[0];
  EXPECT_EQ(std::memcmp(found.data.data(), rounded, sizeof(rounded)), 0);
  EXPECT_EQ(found.digest->Get(), ContentDigest(found.data).Get());
  EXPECT_OK(CheckUnchanged(found));
  testing::EditInPlace(
      path, testing::SafetensorsBytes(
                {{"byte", "U8", {1}, "x"}, {"doubles", "F64", {7}, std::string(56, 1)}}));
  EXPECT_FALSE(CheckUnchanged(found).ok());
  EXPECT_EQ(std::memcmp(found.data.data(), rounded, sizeof(rounded)), 0);
}

TEST(WeightSetCheckTest, IgnoresTensorsThatTheGraphDoesNotWant) {
  const WeightSet set = SetOf("text_encoder", {{"a", Tensor(DType::kF32, {3})},
                                               {"position_ids", Tensor(DType::kI64, {1, 77})}});
  EXPECT_THAT(set.Check(Wants({{"text_encoder/a", {3}}})), IsOk());
}

TEST(WeightSetCheckTest, NamesAllThatIsWrongAtOnce) {
  const WeightSet set =
      SetOf("vae", {{"good", Tensor(DType::kF32, {3})}, {"long", Tensor(DType::kF32, {3, 4})}});
  EXPECT_THAT(
      set.Check(
          Wants({{"vae/good", {3}}, {"vae/long", {3, 5}}, {"vae/none", {1}}, {"unet/x", {1}}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("vae/long of /c/vae/x.safetensors is f32[3,4], the network wants "
                               "f32[3,5]"),
                     HasSubstr("vae/none is missing"), HasSubstr("unet/x is missing"),
                     Not(HasSubstr("vae/good")))));
}

// Networks want f32; a recipe over a checkpoint's tensors may want them as they are.
TEST(WeightSetCheckTest, TakesAnyDTypeForF32AndNoOtherForTheRest) {
  const WeightSet set =
      SetOf("vae", {{"a", Tensor(DType::kF32, {3})}, {"b", Tensor(DType::kBF16, {3})}});
  EXPECT_OK(set.Check(Wants({{"vae/a", {3}}, {"vae/b", {3}}})));
  EXPECT_OK(set.Check(Wants({{"vae/b", {3}}}, DType::kBF16)));
  EXPECT_THAT(set.Check(Wants({{"vae/a", {3}}}, DType::kF16)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the network wants f16[3]")));
}

TEST(WeightSetCheckTest, EndsLongLists) {
  std::vector<std::pair<std::string, Shape>> wanted;
  wanted.reserve(1000);
  for (int i = 0; i < 1000; ++i) wanted.push_back({absl::StrCat("vae/", i), {1}});
  EXPECT_THAT(WeightSet(nullptr).Check(Wants(wanted)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("; and 950 more")));
}

StoredTensor Filled(float value) {
  const Buffer data = Buffer::Allocate(DType::kF32, {3});
  for (float& x : data.as<float>()) x = value;
  StoredTensor tensor = Tensor(DType::kF32, {3});
  tensor.data = data;
  return tensor;
}

TEST(WeightSetTest, HasOneContentDigestForEqualTensorsOfAnyName) {
  const WeightSet base = SetOf("vae", {{"a", Filled(1)}, {"b", Filled(2)}, {"unread", Filled(3)}});
  const WeightSet refiner = SetOf("vae_2", {{"x", Filled(1)}, {"y", Filled(2)}});
  const Digest digest = *base.ContentDigest(Wants({{"vae/a", {3}}, {"vae/b", {3}}}));
  EXPECT_EQ(digest, *refiner.ContentDigest(Wants({{"vae_2/x", {3}}, {"vae_2/y", {3}}})));
}

TEST(WeightSetTest, HasAnotherContentDigestForOtherTensorsOrOrder) {
  const WeightSet base = SetOf("vae", {{"a", Filled(1)}, {"b", Filled(2)}});
  const WeightSet changed = SetOf("vae", {{"a", Filled(1)}, {"b", Filled(5)}});
  const WeightSet cut = SetOf("vae", {{"a", Filled(1)}});
  const graph::Graph graph = Wants({{"vae/a", {3}}, {"vae/b", {3}}});
  const Digest digest = *base.ContentDigest(graph);
  EXPECT_NE(digest, *changed.ContentDigest(graph));
  EXPECT_NE(digest, *cut.ContentDigest(graph));
  EXPECT_NE(digest, *base.ContentDigest(Wants({{"vae/b", {3}}, {"vae/a", {3}}})));
  EXPECT_NE(digest, *base.ContentDigest(Wants({{"vae/a", {3}}})));
}

TEST(WeightSetTest, HasAnotherContentDigestForTheSameBytesOfAnotherDType) {
  const WeightSet half = SetOf("vae", {{"a", Tensor(DType::kF16, {3})}});
  const WeightSet brain = SetOf("vae", {{"a", Tensor(DType::kBF16, {3})}});
  const graph::Graph graph = Wants({{"vae/a", {3}}});
  EXPECT_NE(*half.ContentDigest(graph), *brain.ContentDigest(graph));
}

}  // namespace
}  // namespace latentd::weights
