// A folder of IP-Adapters of the demo's base, with weights that differ by a seed, and an image
// encoder beside them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/files.h"
#include "core/graph/graph_builder.h"
#include "core/networks/clip_vision.h"
#include "core/networks/cross_attentions.h"
#include "core/networks/ip_adapter.h"
#include "core/noise/noise_generator.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {

class IpAdapterFolder {
 public:
  using Tensors = std::vector<testing::TensorToWrite>;

  const std::string& path() const { return folder_.path(); }

  static constexpr char kEncoderConfig[] =
      R"({"hidden_size": 32, "intermediate_size": 48, "projection_dim": 24,
          "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14})";

  static networks::Unet2dConditionConfig Unet() {
    const std::string config = std::string(testing::kDemoBase) + "/unet/config.json";
    return networks::ParseUnet2dConditionConfig(ReadFile(config, size_t{1} << 20).value(), config)
        .value();
  }
  static networks::IpAdapterConfig Base() {
    return {.image_features = 24, .tokens = 4, .text_features = Unet().cross_attention_dim};
  }
  static networks::IpAdapterConfig Plus() {
    return {.projection = networks::IpAdapterConfig::Projection::kResampler,
            .image_features = 32,
            .tokens = 6,
            .text_features = Unet().cross_attention_dim,
            .width = 40,
            .heads = 1,
            .hidden = 160,
            .layers = 1};
  }

  // Writes the encoder that both read, which has the first so many tensors of it.
  void AddEncoder(const std::string& folder = "image_encoder", uint64_t seed = 9,
                  size_t most = SIZE_MAX) const {
    const auto config = networks::ParseClipVisionConfig(kEncoderConfig, "config.json").value();
    graph::GraphBuilder b;
    const graph::Value pixels =
        b.Input("pixels", device::DType::kF32, {1, 3, 28, 28}, graph::Rate::kStep);
    b.Output("embedding", networks::ClipVision(b, config, "net", pixels));
    testing::WriteFile(absl::StrCat(path(), "/", folder, "/config.json"), kEncoderConfig);
    Tensors tensors = Draw(std::move(b).Build().value(), seed);
    tensors.resize(std::min(tensors.size(), most));
    testing::WriteSafetensors(absl::StrCat(path(), "/", folder, "/model.safetensors"), tensors);
  }

  // `gain`: of values that attention reads of the image; 0: it adds zeros.
  void Add(const std::string& name, const networks::IpAdapterConfig& config, uint64_t seed,
           float gain = 1) const {
    testing::WriteSafetensors(absl::StrCat(path(), "/", name, ".safetensors"),
                              TensorsOf(config, seed, gain));
  }

  // By the names of files.
  static Tensors TensorsOf(const networks::IpAdapterConfig& config, uint64_t seed, float gain = 1) {
    graph::GraphBuilder b;
    const bool is_plus = config.projection == networks::IpAdapterConfig::Projection::kResampler;
    const graph::Shape shape = is_plus ? graph::Shape{1, 5, config.image_features}
                                       : graph::Shape{1, config.image_features};
    const graph::Value image = b.Input("image", device::DType::kF32, shape, graph::Rate::kStep);
    int outputs = 0;
    for (const auto& read :
         networks::ReadTokens(b, Unet(), "net", networks::ImageTokens(b, config, "net", image))) {
      b.Output(absl::StrCat(outputs++), read.keys);
      b.Output(absl::StrCat(outputs++), read.values);
    }
    Tensors tensors = Draw(std::move(b).Build().value(), seed, gain);
    for (testing::TensorToWrite& tensor : tensors) tensor.name = FileName(tensor.name);
    return tensors;
  }

 private:
  // "ip_adapter.3.to_k_ip.weight" of a module's name.
  static std::string FileName(const std::string& name) {
    std::vector<networks::CrossAttention> attentions = networks::CrossAttentionsOf(Unet());
    std::stable_partition(attentions.begin(), attentions.end(),
                          [](const auto& attention) { return !attention.is_middle; });
    for (size_t i = 0; i < attentions.size(); ++i) {
      const std::string prefix = attentions[i].path + ".";
      if (!absl::StartsWith(name, prefix)) continue;
      return absl::StrCat("ip_adapter.", 2 * i + 1, ".", name.substr(prefix.size()));
    }
    return name;
  }

  // Values for the weights of a graph of the component "net"; `gain`: of the values of attention.
  static Tensors Draw(const graph::Graph& graph, uint64_t seed, float gain = 1) {
    noise::NoiseGenerator generator(seed);
    Tensors tensors;
    for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const graph::Node& weight = graph.node(id);
      const double fan_in =
          static_cast<double>(weight.shape.elements()) / static_cast<double>(weight.shape[0]);
      const double scale = (weight.shape.rank() < 2 ? 0.5 : 1 / std::sqrt(fan_in)) *
                           (absl::StrContains(weight.name, "to_v_ip") ? gain : 1);
      const device::Buffer drawn = generator.Normal(weight.shape);
      std::vector<float> values;
      for (const float value : drawn.as<float>()) {
        values.push_back(static_cast<float>(value * scale));
      }
      tensors.push_back(testing::F32Tensor(weight.name.substr(weight.name.find('/') + 1),
                                           weight.shape.dims(), std::move(values)));
    }
    return tensors;
  }

  testing::TemporaryDirectory folder_;
};

}  // namespace latentd::pipeline
