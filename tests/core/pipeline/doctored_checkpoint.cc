#include "tests/core/pipeline/doctored_checkpoint.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/ascii.h"
#include "core/backends/reference/evaluate.h"
#include "core/graph/graph_builder.h"
#include "core/pipeline/graphs/vae_graph.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/stored_weight.h"

namespace latentd::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void Require(bool condition, const std::string& what) {
  if (condition) return;
  std::cerr << "cannot doctor a checkpoint: " << what << "\n";
  std::abort();
}

// The bytes of a float32 or float16 (1, 0 and what is not finite; others are not needed).
std::string BytesOf(float value, const std::string& dtype) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (dtype == "F32") return {reinterpret_cast<const char*>(&bits), 4};
  Require(dtype == "F16", "a tensor of " + dtype);
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  const uint32_t exponent = bits >> 23 & 0xff;
  uint16_t half = sign;
  if (exponent == 0xff) half |= (bits & 0x7fffff) != 0 ? 0x7e00 : 0x7c00;
  if (exponent > 112 && exponent < 143) half |= (exponent - 112) << 10 | (bits >> 13 & 0x3ff);
  return {reinterpret_cast<const char*>(&half), 2};
}

enum class Elements : uint8_t { kFirst, kAll };

void Doctor(const std::string& path, const std::string& tensor, float value, Elements elements) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  Require(file.good(), path);
  const json parsed = json::parse(header, nullptr, /*allow_exceptions=*/false);
  Require(parsed.is_object() && parsed.contains(tensor), path + " has no " + tensor);
  const json& entry = parsed[tensor];
  const uint64_t begin = entry["data_offsets"][0];
  const uint64_t end = entry["data_offsets"][1];
  const std::string bytes = BytesOf(value, entry["dtype"]);
  file.seekp(static_cast<std::streamoff>(sizeof length + length + begin));
  const uint64_t count = elements == Elements::kFirst ? 1 : (end - begin) / bytes.size();
  for (uint64_t i = 0; i < count; ++i) {
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  Require(file.good(), path);
}

// Fills the directory `path` with links to what is in `original`, but for one entry.
void LinkAllBut(const fs::path& path, const fs::path& original, const fs::path& left_out) {
  fs::create_directories(path);
  for (const auto& entry : fs::directory_iterator(original)) {
    if (entry.path().filename() == left_out) continue;
    fs::create_symlink(fs::canonical(entry.path()), path / entry.path().filename());
  }
}

void EditJson(const fs::path& from, const fs::path& to, const std::string& field,
              const std::string& value) {
  std::ifstream file(from);
  json object = json::parse(file, nullptr, /*allow_exceptions=*/false);
  Require(object.is_object(), from.string() + " is no JSON object");
  if (value.empty()) {
    object.erase(field);
  } else {
    object[field] = json::parse(value, nullptr, /*allow_exceptions=*/false);
    Require(!object[field].is_discarded(), value + " is no JSON");
  }
  Require((std::ofstream(to) << object.dump()).good(), to.string());
}

void DoctorBase(const std::string& path, const std::string& component,
                const std::vector<std::string>& tensors, float value, Elements elements) {
  LinkAllBut(path, kDemoBase, component);
  const fs::path folder = fs::path(path) / component;
  fs::copy(fs::path(kDemoBase) / component, folder, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const std::string& tensor : tensors) Doctor(entry.path(), tensor, value, elements);
  }
}

// As AutoencoderTiny.save_pretrained writes it.
constexpr char kTinyVae[] = R"({
  "_class_name": "AutoencoderTiny",
  "act_fn": "relu",
  "encoder_block_out_channels": [8, 8, 8, 8],
  "decoder_block_out_channels": [8, 8, 8, 8],
  "latent_channels": 4,
  "num_encoder_blocks": [1, 1, 1, 1],
  "num_decoder_blocks": [1, 1, 1, 1],
  "scaling_factor": 1.0
})";

std::vector<TensorToWrite> TinyVaeTensors(float scale) {
  const auto config = networks::ParseAutoencoderTinyConfig(kTinyVae, "vae_tiny");
  const auto decoder =
      pipeline::MakeDecodeGraph(*config, pipeline::TileGrid::Whole({8, 8}), "vae_tiny");
  std::vector<TensorToWrite> tensors;
  std::mt19937 random;
  for (graph::ValueId id : decoder->Select(graph::Op::kWeight)) {
    const graph::Node& weight = decoder->node(id);
    std::vector<float> values(static_cast<size_t>(weight.shape.elements()));
    const auto inputs = static_cast<float>(values.size()) / static_cast<float>(weight.shape[0]);
    for (float& value : values) {
      value = scale * (static_cast<float>(random()) / 0x1p31f - 0.95f) / std::sqrt(inputs);
    }
    const std::string name = weight.name.substr(weight.name.find('/') + 1);
    tensors.push_back(F32Tensor(name, weight.shape.dims(), std::move(values)));
  }
  return tensors;
}

std::string Bytes(const weights::StoredTensor& tensor, device::DType dtype) {
  graph::GraphBuilder b;
  b.Output("y", b.Cast(StoredWeight(b, "x", tensor.data.dtype(), tensor.data.shape()), dtype));
  const auto cast =
      backends::reference::EvaluateRecipe(*std::move(b).Build(), {&tensor.data, 1}).value();
  return {static_cast<const char*>(cast.data()), cast.bytes()};
}

void WriteStoredIn(const fs::path& to, const fs::path& from, device::DType dtype) {
  std::vector<TensorToWrite> tensors;
  const weights::TensorMap read = weights::ReadSafetensors(from).value();
  for (const auto& [name, tensor] : read) {
    tensors.push_back({name, absl::AsciiStrToUpper(device::Name(dtype)), tensor.data.shape().dims(),
                       Bytes(tensor, dtype)});
  }
  WriteSafetensors(to, tensors);
}

}  // namespace

void MakeCheckpointStoredIn(const std::string& path, const std::string& original,
                            device::DType dtype) {
  for (const auto& entry : fs::recursive_directory_iterator(original)) {
    const fs::path to = fs::path(path) / fs::relative(entry.path(), original);
    if (entry.is_directory()) continue;
    fs::create_directories(to.parent_path());
    if (entry.path().extension() == ".safetensors") {
      WriteStoredIn(to, entry.path(), dtype);
    } else {
      fs::copy(entry.path(), to);
    }
  }
}

void MakeCheckpointWithTinyVae(const std::string& path, const std::string& original, float scale) {
  LinkAllBut(path, original, "");
  WriteFile(path + "/vae_tiny/config.json", kTinyVae);
  WriteSafetensors(path + "/vae_tiny/diffusion_pytorch_model.safetensors", TinyVaeTensors(scale));
}

void MakeDoctoredCheckpoint(const std::string& path, const std::string& component,
                            const std::string& tensor, float value) {
  DoctorBase(path, component, {tensor}, value, Elements::kFirst);
}

void MakeFilledCheckpoint(const std::string& path, const std::string& component,
                          const std::vector<std::string>& tensors, float value) {
  DoctorBase(path, component, tensors, value, Elements::kAll);
}

void MakeEditedCheckpoint(const std::string& path, const std::string& original,
                          const std::string& file, const std::string& field,
                          const std::string& value) {
  const fs::path relative(file);
  LinkAllBut(path, original, *relative.begin());
  if (relative.has_parent_path()) {
    const fs::path folder = relative.parent_path();
    LinkAllBut(fs::path(path) / folder, fs::path(original) / folder, relative.filename());
  }
  EditJson(fs::path(original) / relative, fs::path(path) / relative, field, value);
}

}  // namespace latentd::testing
