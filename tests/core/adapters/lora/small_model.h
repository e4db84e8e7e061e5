// A small model, and files of LoRAs for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/weights/stored_tensor.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::adapters {

// The sizes of a UNet that matter: no two of a weight are alike, where they need not be.
inline absl::btree_map<std::string, device::Shape> SmallModel() {
  absl::btree_map<std::string, device::Shape> shapes = {
      {"unet/conv_in.weight", {8, 4, 3, 3}},
      {"unet/conv_in.bias", {8}},
      {"unet/down_blocks.0.resnets.0.norm1.weight", {8}},
      {"unet/down_blocks.0.resnets.0.norm1.bias", {8}},
      {"unet/down_blocks.0.resnets.0.conv1.weight", {6, 8, 3, 3}},
      {"unet/down_blocks.0.resnets.0.conv1.bias", {6}},
      {"unet/down_blocks.0.attentions.0.proj_in.weight", {8, 6}},
      {"unet/down_blocks.0.attentions.0.proj_in.bias", {8}},
      {"unet/mid_block.attentions.0.proj_in.weight", {8, 6, 1, 1}},
      {"unet/mid_block.resnets.0.norm1.weight", {8}}};
  const std::string block = "unet/down_blocks.0.attentions.0.transformer_blocks.0.";
  shapes.emplace(block + "attn1.to_q.weight", device::Shape{8, 6});
  shapes.emplace(block + "attn1.to_out.0.weight", device::Shape{6, 8});
  shapes.emplace(block + "attn1.to_out.0.bias", device::Shape{6});
  shapes.emplace(block + "attn2.to_k.weight", device::Shape{8, 10});
  shapes.emplace(block + "ff.net.0.proj.weight", device::Shape{16, 6});
  for (const std::string encoder : {"text_encoder/", "text_encoder_2/"}) {
    const std::string layer = encoder + "text_model.encoder.layers.0.";
    for (const std::string part : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      shapes.emplace(layer + "self_attn." + part + ".weight", device::Shape{4, 4});
      shapes.emplace(layer + "self_attn." + part + ".bias", device::Shape{4});
    }
    shapes.emplace(layer + "mlp.fc1.weight", device::Shape{12, 4});
  }
  shapes.emplace("text_encoder_2/text_projection.weight", device::Shape{4, 4});
  return shapes;
}

// Names of two modules of it.
inline const std::string kToQ =
    "unet/down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight";
inline const std::string kConv = "unet/down_blocks.0.resnets.0.conv1.weight";
// The same in kohya's files.
inline const std::string kKohyaToQ =
    "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
inline const std::string kKohyaConv = "lora_unet_down_blocks_0_resnets_0_conv1";

// A tensor of F32 with values 1, 2, ... times `step`.
inline testing::TensorToWrite Counted(std::string name, std::vector<int64_t> shape,
                                      float step = 1) {
  int64_t elements = 1;
  for (const int64_t dim : shape) elements *= dim;
  std::vector<float> values;
  for (int64_t i = 1; i <= elements; ++i) values.push_back(static_cast<float>(i) * step);
  return testing::F32Tensor(std::move(name), std::move(shape), std::move(values));
}

inline std::vector<float> Values(const weights::StoredTensor& tensor) {
  const absl::Span<const float> values = tensor.data.as<float>();
  return {values.begin(), values.end()};
}

// 1, 2, ... times `step`.
inline std::vector<float> Counting(int count, float step = 1) {
  std::vector<float> values;
  for (int i = 1; i <= count; ++i) values.push_back(static_cast<float>(i) * step);
  return values;
}

class LoraFileTest : public ::testing::Test {
 protected:
  using Tensors = std::vector<testing::TensorToWrite>;
  using Texts = std::map<std::string, std::string>;

  std::string Path(const std::string& name) const { return directory_.File(name); }

  // Writes a file with such tensors and metadata.
  std::string Write(const Tensors& tensors, const Texts& metadata = {},
                    const std::string& name = "film.safetensors") const {
    const std::string bytes = testing::SafetensorsBytes(tensors);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    std::string header = bytes.substr(sizeof(length), length);
    if (!metadata.empty()) {
      std::string texts;
      for (const auto& [key, value] : metadata) {
        absl::StrAppend(&texts, texts.empty() ? "" : ",", "\"", key, "\":\"", absl::CEscape(value),
                        "\"");
      }
      header = absl::StrCat("{\"__metadata__\":{", texts, "}", tensors.empty() ? "" : ",",
                            header.substr(1));
    }
    testing::WriteFile(Path(name),
                       testing::SafetensorsBytes(header, bytes.substr(sizeof(length) + length)));
    return Path(name);
  }

  absl::StatusOr<Lora> Read(const Tensors& tensors, const Texts& metadata = {}) const {
    return ReadLora("film", Write(tensors, metadata), modules_);
  }

  // The only change of such a file.
  absl::StatusOr<WeightChange> ReadOne(const Tensors& tensors, const Texts& metadata = {}) const {
    absl::StatusOr<Lora> lora = Read(tensors, metadata);
    if (!lora.ok()) return lora.status();
    EXPECT_EQ(lora->changes.size(), 1u);
    return lora->changes.at(0);
  }

  // The error of such a file, behind its path.
  std::string Error(const Tensors& tensors, const Texts& metadata = {}) const {
    const absl::Status status = Read(tensors, metadata).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    std::string message(status.message());
    EXPECT_THAT(message, ::testing::StartsWith(Path("film.safetensors")));
    return message.substr(std::min(message.size(), Path("film.safetensors").size()));
  }

  const testing::TemporaryDirectory directory_;
  const ModelModules modules_{SmallModel()};
};

}  // namespace latentd::adapters
