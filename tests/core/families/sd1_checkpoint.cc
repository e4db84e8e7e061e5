#include "tests/core/families/sd1_checkpoint.h"

#include <cmath>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "core/graph/graph_builder.h"
#include "core/networks/unet_2d_condition.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::testing {
namespace {

// As diffusers' save_pretrained writes them.
constexpr char kIndex[] = R"({
  "_class_name": "StableDiffusionPipeline",
  "feature_extractor": [null, null],
  "image_encoder": [null, null],
  "requires_safety_checker": false,
  "safety_checker": [null, null],
  "scheduler": ["diffusers", "EulerDiscreteScheduler"],
  "text_encoder": ["transformers", "CLIPTextModel"],
  "tokenizer": ["transformers", "CLIPTokenizer"],
  "unet": ["diffusers", "UNet2DConditionModel"],
  "vae": ["diffusers", "AutoencoderKL"]
})";
constexpr char kUnet[] = R"({
  "_class_name": "UNet2DConditionModel",
  "attention_head_dim": 2,
  "block_out_channels": [32, 64],
  "cross_attention_dim": 64,
  "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
  "layers_per_block": 1,
  "norm_num_groups": 8,
  "sample_size": 32,
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]
})";

constexpr char kLcmField[] = R"(, "time_cond_proj_dim": 16)";

std::vector<TensorToWrite> UnetTensors(const std::string& text) {
  const auto config = networks::ParseUnet2dConditionConfig(text, "unet");
  graph::GraphBuilder b;
  const auto input = [&](const char* name, graph::Shape shape) {
    return b.Input(name, device::DType::kF32, std::move(shape), graph::Rate::kStep);
  };
  networks::Unet2dConditionInputs inputs;
  inputs.sample = input("sample", {1, 4, 8, 8});
  inputs.timestep = input("timestep", {1});
  inputs.encoder_hidden_states = input("states", {1, 77, config->cross_attention_dim});
  if (config->time_cond_proj_dim > 0) {
    inputs.timestep_cond = input("timestep_cond", {1, config->time_cond_proj_dim});
  }
  b.Output("out", networks::Unet2dCondition(b, *config, "unet", inputs));
  const auto network = std::move(b).Build();
  std::vector<TensorToWrite> tensors;
  std::mt19937 random;
  for (graph::ValueId id : network->Select(graph::Op::kWeight)) {
    const graph::Node& weight = network->node(id);
    std::vector<float> values(static_cast<size_t>(weight.shape.elements()));
    const auto fan_in = static_cast<float>(values.size()) / static_cast<float>(weight.shape[0]);
    for (float& value : values) {
      value = (static_cast<float>(random()) / 0x1p31f - 1) * std::sqrt(3 / fan_in);
    }
    const std::string name = weight.name.substr(weight.name.find('/') + 1);
    tensors.push_back(F32Tensor(name, weight.shape.dims(), std::move(values)));
  }
  return tensors;
}

void MakeCheckpoint(const std::string& path, const std::string& demo, const std::string& unet) {
  WriteFile(path + "/model_index.json", kIndex);
  WriteFile(path + "/unet/config.json", unet);
  WriteSafetensors(path + "/unet/diffusion_pytorch_model.safetensors", UnetTensors(unet));
  for (const char* component : {"scheduler", "text_encoder", "tokenizer", "vae"}) {
    std::filesystem::create_directory_symlink(demo + "/" + component, path + "/" + component);
  }
}

}  // namespace

void MakeSd1Checkpoint(const std::string& path, const std::string& demo) {
  MakeCheckpoint(path, demo, kUnet);
}

void MakeLcmCheckpoint(const std::string& path) {
  std::string unet = kUnet;
  unet.insert(unet.rfind('\n'), kLcmField);
  MakeCheckpoint(path, kDemoBase, unet);
}

}  // namespace latentd::testing
