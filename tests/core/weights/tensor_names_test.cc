#include "core/weights/containers/tensor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace latentd::weights {
namespace {

using device::DType;
using device::Shape;
using ::testing::UnorderedElementsAre;

TensorMap TensorsOf(const std::vector<std::pair<std::string, Shape>>& tensors) {
  TensorMap map;
  for (const auto& [name, shape] : tensors) {
    map[name] = {device::Buffer::Allocate(DType::kF32, shape), "file"};
  }
  return map;
}

std::vector<std::string> NamesOf(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(TensorNames, OfATextEncoderBeginWithItsModelButForTheProjection) {
  const auto bare =
      TensorsOf({{"embeddings.a", {3}}, {"encoder.b", {3}}, {"text_projection.c", {3}}});
  const auto prefixed = TensorsOf({{"text_model.embeddings.a", {3}},
                                   {"text_model.encoder.b", {3}},
                                   {"text_model.text_projection.c", {3}}});
  for (const TensorMap& tensors : {bare, prefixed}) {
    EXPECT_THAT(NamesOf(UnderTodaysNames(tensors, "CLIPTextModelWithProjection")),
                UnorderedElementsAre("text_model.embeddings.a", "text_model.encoder.b",
                                     "text_projection.c"));
  }
}

TEST(TensorNames, OfAnAutoencoderHaveNoPrefix) {
  EXPECT_THAT(
      NamesOf(UnderTodaysNames(TensorsOf({{"encoder.conv_in.bias", {3}}}), "AutoencoderKL")),
      UnorderedElementsAre("encoder.conv_in.bias"));
}

TEST(TensorNames, OfOldAttentionAreTodays) {
  const std::string block = "encoder.mid_block.attentions.0.";
  const auto old = TensorsOf({{block + "query.weight", {2, 2}},
                              {block + "key.weight", {2, 2}},
                              {block + "value.bias", {2}},
                              {block + "proj_attn.bias", {2}}});
  EXPECT_THAT(NamesOf(UnderTodaysNames(old, "AutoencoderKL")),
              UnorderedElementsAre(block + "to_q.weight", block + "to_k.weight",
                                   block + "to_v.bias", block + "to_out.0.bias"));
}

TEST(TensorNames, GiveWayToTheOneThatIsThereAlready) {
  // Several blocks, since tensors come in any order.
  TensorMap both;
  for (int i = 0; i < 32; ++i) {
    const std::string block = absl::StrCat(i);
    both.merge(TensorsOf({{block + ".query.weight", {2, 2}}, {block + ".to_q.weight", {3, 3}}}));
  }
  const TensorMap found = UnderTodaysNames(std::move(both), "AutoencoderKL");
  ASSERT_EQ(found.size(), 32u);
  for (const auto& [name, tensor] : found) EXPECT_EQ(tensor.data.shape(), Shape({3, 3})) << name;
}

TEST(TensorShapes, OfAttentionThatIsStoredAsAConvolutionAreOfLinears) {
  const TensorMap found = UnderTodaysNames(TensorsOf({{"x.query.weight", {4, 8, 1, 1}},
                                                      {"x.to_k.weight", {4, 8, 1, 1}},
                                                      {"x.to_v.weight", {4, 8, 3, 1}},
                                                      {"conv.weight", {4, 8, 1, 1}}}),
                                           "AutoencoderKL");
  EXPECT_EQ(found.at("x.to_q.weight").data.shape(), Shape({4, 8}));
  EXPECT_EQ(found.at("x.to_k.weight").data.shape(), Shape({4, 8}));
  EXPECT_EQ(found.at("x.to_v.weight").data.shape(), Shape({4, 8, 3, 1}));
  EXPECT_EQ(found.at("conv.weight").data.shape(), Shape({4, 8, 1, 1}));
}

}  // namespace
}  // namespace latentd::weights
