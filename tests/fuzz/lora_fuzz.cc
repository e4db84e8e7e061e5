// libFuzzer target: any names, dtypes and shapes as those of a LoRA's file. A line of the input is
// a tensor, "F16 2x6 unet.conv_in.lora_A.weight", or an entry of the metadata, "name=value"; the
// entry "adapter_config.json" is that file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/adapters/lora/lora_reader.h"

namespace {

using latentd::device::Buffer;
using latentd::device::ConstBuffer;
using latentd::device::DType;
using latentd::device::Shape;
using latentd::weights::StoredTensor;
namespace adapters = latentd::adapters;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Nullopt: no shape, or one of which the data would not fit into a small file.
std::optional<Shape> ParseShape(absl::string_view text) {
  constexpr int64_t kMostElements = int64_t{1} << 16;
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (const absl::string_view size : absl::StrSplit(text, 'x', absl::SkipEmpty())) {
    int64_t& dim = dims.emplace_back();
    if (!absl::SimpleAtoi(size, &dim) || dim < 0 ||
        __builtin_mul_overflow(elements, dim, &elements) || elements > kMostElements) {
      return std::nullopt;
    }
  }
  return Shape(std::move(dims));
}

// As the reader of safetensors files makes it; an unknown dtype is one without memory.
StoredTensor MakeTensor(absl::string_view dtype, Shape shape) {
  StoredTensor tensor;
  tensor.file = "fuzzed";
  if (dtype == "F64") {
    tensor.unusable_dtype = std::string(dtype);
    tensor.data = Buffer::Allocate(DType::kI64, std::move(shape));
    return tensor;
  }
  constexpr std::pair<absl::string_view, DType> kDTypes[] = {
      {"F32", DType::kF32},       {"F16", DType::kF16}, {"BF16", DType::kBF16},
      {"I64", DType::kI64},       {"U8", DType::kU8},   {"F8", DType::kF8E4M3},
      {"F8_E5M2", DType::kF8E5M2}};
  for (const auto& [name, own] : kDTypes) {
    if (dtype != name) continue;
    const Buffer data = Buffer::Allocate(own, std::move(shape));
    // Some are not finite.
    std::memset(data.data(), static_cast<int>(data.bytes() % 128), data.bytes());
    tensor.data = data;
    return tensor;
  }
  tensor.unusable_dtype = std::string(dtype);
  tensor.data = ConstBuffer::Wrap(nullptr, DType::kU8, std::move(shape), nullptr);
  return tensor;
}

const absl::btree_map<std::string, Shape>& Weights() {
  static const auto& weights = *new absl::btree_map<std::string, Shape>{
      {"unet/conv_in.weight", {8, 9, 3, 3}},
      {"unet/conv_in.bias", {8}},
      {"unet/down_blocks.0.resnets.0.norm1.weight", {8}},
      {"unet/down_blocks.0.resnets.0.conv1.weight", {6, 8, 3, 3}},
      {"unet/down_blocks.0.attentions.0.proj_in.weight", {8, 6}},
      {"unet/down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight", {8, 768}},
      {"text_encoder/text_model.encoder.layers.0.self_attn.q_proj.weight", {4, 4}},
      {"text_encoder/text_model.encoder.layers.0.self_attn.k_proj.weight", {4, 4}},
      {"text_encoder/text_model.encoder.layers.0.self_attn.v_proj.weight", {4, 4}},
      {"text_encoder/text_model.encoder.layers.0.mlp.fc1.weight", {12, 4}}};
  return weights;
}

// The product of up and down, and of factors, is what the change's shape says.
struct DeltaCheck {
  const Shape& shape;

  int64_t columns() const { return shape.elements() / shape[0]; }
  void operator()(const adapters::LowRank& delta) const {
    const Shape &up = delta.up.data.shape(), &down = delta.down.data.shape();
    Require(up.rank() == 2 && down.rank() == 2 && up[0] == shape[0] && up[1] == down[0]);
    Require(down[1] == (delta.mid ? shape[1] : columns()));
  }
  void operator()(const adapters::Hadamard& delta) const {
    Require(delta.t1.has_value() == delta.t2.has_value());
    const Shape &a = delta.w1_a.data.shape(), &b = delta.w1_b.data.shape();
    Require(a[delta.t1 ? 1 : 0] == shape[0] && b[1] == (delta.t1 ? shape[1] : columns()));
  }
  void operator()(const adapters::Kronecker& delta) const {
    Require(delta.w1.has_value() != (delta.w1_a && delta.w1_b));
    Require(delta.w2.has_value() != (delta.w2_a && delta.w2_b));
    if (!delta.w1 || !delta.w2) return;
    const Shape &outer = delta.w1->data.shape(), &inner = delta.w2->data.shape();
    Require(outer[0] * inner[0] == shape[0] && outer[1] * inner[1] == shape[1]);
  }
  void operator()(const adapters::Difference& delta) const {
    Require(delta.diff.data.shape() == shape);
  }
};

void Check(const adapters::Lora& lora) {
  Require(!lora.changes.empty());
  std::string last;
  for (const adapters::WeightChange& change : lora.changes) {
    Require(last < change.weight && Weights().contains(change.weight));
    last = change.weight;
    std::visit(DeltaCheck{change.shape}, change.delta);
    if (!change.magnitude) continue;
    const bool has_rows = change.magnitude->axis == adapters::Magnitude::Axis::kRows;
    Require(change.magnitude->values.data.shape() == Shape({change.shape[has_rows ? 0 : 1]}));
  }
}

void AddLine(absl::string_view line, adapters::LoraFile& file) {
  const std::pair<absl::string_view, absl::string_view> entry =
      absl::StrSplit(line, absl::MaxSplits('=', 1));
  if (!entry.second.empty()) {
    if (entry.first == "adapter_config.json") file.adapter_config = std::string(entry.second);
    file.metadata.insert_or_assign(std::string(entry.first), std::string(entry.second));
    return;
  }
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (words.size() < 3) return;
  std::optional<Shape> shape = ParseShape(words[1]);
  if (!shape) return;
  file.tensors.insert_or_assign(std::string(words[2]), MakeTensor(words[0], *std::move(shape)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& modules = *new adapters::ModelModules(Weights());
  adapters::LoraFile file = {.path = "fuzzed", .tensors = {}, .metadata = {}};
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) AddLine(line, file);
  const auto lora = adapters::MakeLora("fuzzed", file, modules);
  if (lora.ok()) Check(*lora);
  return 0;
}
