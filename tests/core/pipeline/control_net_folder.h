// A folder of ControlNets of the demo's base, with weights that differ by a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files/files.h"
#include "core/graph/graph_builder.h"
#include "core/networks/control_net.h"
#include "core/noise/noise_generator.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {

class ControlNetFolder {
 public:
  const std::string& path() const { return folder_.path(); }

  // The configuration of a net for the demo's base.
  static nlohmann::json Config() {
    const auto unet = nlohmann::json::parse(
        ReadFile(std::string(testing::kDemoBase) + "/unet/config.json", size_t{1} << 20).value());
    nlohmann::json config = {{"_class_name", "ControlNetModel"},
                             {"conditioning_embedding_out_channels", {8, 8, 8, 8}}};
    for (const char* field :
         {"addition_embed_type", "addition_time_embed_dim", "attention_head_dim",
          "block_out_channels", "cross_attention_dim", "down_block_types", "layers_per_block",
          "projection_class_embeddings_input_dim", "transformer_layers_per_block",
          "use_linear_projection"}) {
      config[field] = unet.at(field);
    }
    return config;
  }

  // The same of a ControlNet-Union for maps of so many types.
  static nlohmann::json UnionConfig(int types) {
    nlohmann::json config = Config();
    const auto features = config.at("block_out_channels").front();
    config.update({{"_class_name", "ControlNetUnionModel"},
                   {"num_control_type", types},
                   {"num_trans_channel", features},
                   {"num_proj_channel", features}});
    return config;
  }

  // Writes a net as a folder of diffusers. `gain`: of what it adds; 0: it adds zeros.
  void Add(const std::string& name, uint64_t seed, float gain,
           const nlohmann::json& config = Config()) const {
    testing::WriteFile(folder_.path() + "/" + name + "/config.json", config.dump());
    testing::WriteSafetensors(folder_.path() + "/" + name + "/diffusion_pytorch_model.safetensors",
                              Tensors(config, seed, gain));
  }

  static std::vector<testing::TensorToWrite> Tensors(const nlohmann::json& config, uint64_t seed,
                                                     float gain) {
    const auto net = networks::ParseControlNetConfig(config.dump(), "config.json").value();
    noise::NoiseGenerator generator(seed);
    std::vector<testing::TensorToWrite> tensors;
    const graph::Graph graph = GraphOf(net);
    for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const graph::Node& weight = graph.node(id);
      const std::string name = weight.name.substr(weight.name.find('/') + 1);
      const bool is_zero = name.find("controlnet_down") == 0 || name.find("controlnet_mid") == 0;
      // Each SiLU takes half of a map away.
      const bool is_hint = name.find("controlnet_cond_embedding") == 0;
      const double scale = ScaleOf(weight.shape) * (is_zero ? gain : is_hint ? kHintGain : 1);
      const device::Buffer drawn = generator.Normal(weight.shape);
      std::vector<float> values;
      for (const float value : drawn.as<float>()) {
        values.push_back(static_cast<float>(value * scale));
      }
      tensors.push_back(testing::F32Tensor(name, weight.shape.dims(), std::move(values)));
    }
    return tensors;
  }

 private:
  static constexpr double kHintGain = 2.5;

  // Keeps the variance; vectors are biases and norms.
  static double ScaleOf(const device::Shape& shape) {
    if (shape.rank() < 2) return 0.1;
    return std::sqrt(static_cast<double>(shape[0]) / static_cast<double>(shape.elements()));
  }

  static graph::Graph GraphOf(const networks::ControlNetConfig& net) {
    using device::DType;
    graph::GraphBuilder b;
    const auto input = [&](const char* name, device::Shape shape, graph::Rate rate) {
      return b.Input(name, DType::kF32, std::move(shape), rate);
    };
    networks::Unet2dConditionInputs inputs;
    inputs.sample = input("sample", {1, 4, 8, 8}, graph::Rate::kStep);
    inputs.timestep = input("timestep", {1}, graph::Rate::kStep);
    inputs.encoder_hidden_states =
        input("text", {1, 77, net.unet.cross_attention_dim}, graph::Rate::kRequest);
    constexpr int64_t kIds = 6;
    inputs.text_embeds =
        input("pooled", {1, net.unet.TextEmbedFeatures(kIds)}, graph::Rate::kRequest);
    inputs.time_ids = input("ids", {1, kIds}, graph::Rate::kRequest);
    const graph::Value image = input("image", {1, 3, 64, 64}, graph::Rate::kStep);
    graph::Value types;
    if (net.is_union()) {
      types = input("types", {1, net.image_types}, graph::Rate::kStep);
      inputs.added_time = networks::ImageTypeEmbedding(b, net, "net", types);
    }
    const graph::Value hint = networks::ControlNetHint(b, net, "net", image, types);
    const auto residuals = networks::ControlNet(b, net, "net", inputs, hint);
    for (size_t i = 0; i < residuals.size(); ++i) {
      b.Output("residual." + std::to_string(i), residuals[i]);
    }
    return std::move(b).Build().value();
  }

  testing::TemporaryDirectory folder_;
};

}  // namespace latentd::pipeline
