#include "core/adapters/textual_inversion/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/weights/containers/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"

namespace latentd::adapters {
namespace {

using ::testing::ElementsAre;
using testing::F32Tensor;
using testing::FilledTensor;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::TensorToWrite;

const TextEncoderWidth kFirst = {"text_encoder", 2};
const TextEncoderWidth kSecond = {"text_encoder_2", 3};

weights::TensorMap Tensors(const std::vector<TensorToWrite>& tensors) {
  const auto owner = std::make_shared<const std::string>(testing::SafetensorsBytes(tensors));
  return weights::ParseSafetensorsBytes(*owner, "word", owner).value();
}

absl::StatusOr<std::vector<EmbeddingVectors>> Fit(const std::vector<TensorToWrite>& tensors,
                                                  const std::vector<TextEncoderWidth>& encoders) {
  const absl::StatusOr<Embedding> embedding = ReadEmbedding("word", Tensors(tensors));
  if (!embedding.ok()) return embedding.status();
  return VectorsFor("word", *embedding, encoders);
}

TEST(EmbeddingTest, AFileOfSdxlHasVectorsForBothEncoders) {
  const auto vectors = Fit(
      {F32Tensor("clip_l", {2, 2}, {1, 2, 3, 4}), F32Tensor("clip_g", {2, 3}, {5, 6, 7, 8, 9, 10})},
      {kFirst, kSecond});
  ASSERT_OK(vectors);
  ASSERT_THAT(*vectors, SizeIs(2));
  EXPECT_THAT((*vectors)[0].values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT((*vectors)[1].row(1), ElementsAre(8, 9, 10));
  EXPECT_EQ((*vectors)[1].count(), 2);
}

TEST(EmbeddingTest, ARefinerTakesItsEncodersVectors) {
  const auto vectors = Fit({F32Tensor("text_encoders_0", {1, 2}, {1, 2}),
                            F32Tensor("text_encoders_1", {1, 3}, {5, 6, 7})},
                           {kSecond});
  ASSERT_OK(vectors);
  EXPECT_THAT((*vectors)[0].values, ElementsAre(5, 6, 7));
}

TEST(EmbeddingTest, OneTensorOfAnyNameIsForAModelWithOneEncoder) {
  for (const char* name : {"emb_params", "<cat-toy>", "*"}) {
    const auto vectors = Fit({F32Tensor(name, {1, 2}, {1, 2})}, {kFirst});
    ASSERT_OK(vectors);
    EXPECT_THAT((*vectors)[0].values, ElementsAre(1, 2)) << name;
  }
  EXPECT_THAT(Fit({F32Tensor("<cat>", {2}, {1, 2})}, {kFirst})->front().values, ElementsAre(1, 2));
}

TEST(EmbeddingTest, WhatAnEncoderLacksIsAnErrorAndNotIgnored) {
  EXPECT_THAT(Fit({F32Tensor("emb_params", {1, 2}, {1, 2})}, {kFirst, kSecond}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no vectors for text_encoder of 2 features")));
  EXPECT_THAT(Fit({F32Tensor("clip_l", {1, 2}, {1, 2})}, {kFirst, kSecond}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no vectors for text_encoder_2 of 3 features")));
  EXPECT_THAT(Fit({FilledTensor("emb_params", {1, 4}, 1)}, {kFirst}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("for a text encoder of 4 features, and text_encoder has 2")));
}

TEST(EmbeddingTest, VectorsThatCannotBeOnesAreNamed) {
  EXPECT_THAT(Fit({FilledTensor("emb_params", {76, 2}, 1)}, {kFirst}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 75 tokens")));
  EXPECT_THAT(Fit({FilledTensor("emb_params", {0, 2}, 1)}, {kFirst}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 75 tokens")));
  EXPECT_THAT(Fit({F32Tensor("clip_l", {1, 2}, {1, NAN}), F32Tensor("clip_g", {1, 3}, {1, 1, 1})},
                  {kFirst, kSecond}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("clip_l has values")));
  EXPECT_THAT(Fit({FilledTensor("clip_l", {1, 1, 2}, 1)}, {kFirst}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[vectors, features]")));
}

TEST(EmbeddingTest, ManyVectorsOfRealWidthsAreRead) {
  const auto embedding = ReadEmbedding("word", Tensors({FilledTensor("clip_l", {75, 768}, 1),
                                                        FilledTensor("clip_g", {75, 1280}, 1)}));
  ASSERT_OK(embedding);
  EXPECT_EQ(embedding->first.values.size(), size_t{75 * 768});
  EXPECT_EQ(embedding->second.values.size(), size_t{75 * 1280});
}

TEST(EmbeddingTest, OtherFilesAreNone) {
  EXPECT_FALSE(IsEmbedding(Tensors({FilledTensor("unet.conv_in.lora_A.weight", {1, 2}, 1)})));
  EXPECT_FALSE(IsEmbedding(Tensors({FilledTensor("a", {1, 2}, 1), FilledTensor("b", {1, 2}, 1)})));
  EXPECT_FALSE(IsEmbedding(Tensors({FilledTensor("a", {1, 2, 3}, 1)})));
  EXPECT_TRUE(IsEmbedding(Tensors({FilledTensor("clip_l", {1, 2}, 1)})));
  EXPECT_TRUE(IsEmbedding(Tensors({FilledTensor("emb_params", {1, 2}, 1)})));
}

}  // namespace
}  // namespace latentd::adapters
