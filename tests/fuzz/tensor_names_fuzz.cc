// libFuzzer target: any names and shapes as those of a single file, and of a file for one
// component. A line of the input is a tensor, "64x4x3x3 conv_in.weight", or an entry of the
// metadata, "name=value".
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/single_file.h"

namespace {

using latentd::device::Buffer;
using latentd::device::ConstBuffer;
using latentd::device::DType;
using latentd::device::Shape;
namespace weights = latentd::weights;

// Nullopt: no shape, or one that the reader of safetensors refuses, since its bytes cannot be
// counted.
std::optional<Shape> ParseShape(absl::string_view text) {
  std::vector<int64_t> dims;
  int64_t bits = 64;
  for (const absl::string_view size : absl::StrSplit(text, 'x')) {
    int64_t& dim = dims.emplace_back();
    if (!absl::SimpleAtoi(size, &dim) || dim < 0 || __builtin_mul_overflow(bits, dim, &bits)) {
      return std::nullopt;
    }
  }
  return Shape(std::move(dims));
}

// Small ones have memory, as markers do whose values are read.
weights::StoredTensor MakeTensor(Shape shape) {
  constexpr int64_t kSmall = 1024;
  weights::StoredTensor tensor;
  tensor.file = "fuzzed";
  if (shape.elements() <= kSmall) {
    tensor.data = Buffer::Allocate(DType::kF32, std::move(shape));
  } else {
    tensor.data = ConstBuffer::Wrap(nullptr, DType::kF16, std::move(shape), nullptr);
  }
  return tensor;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

// An accepted component has tensors that have elements, and a configuration that is JSON.
void Check(const weights::FilePart& part) {
  Require(!part.config.ok() || nlohmann::json::accept(*part.config));
  Require(!part.sources.empty());
  for (const auto& [name, source] : part.sources) {
    Require(!name.empty() && source.from.size() == 1 && source.shape().elements() > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  weights::TensorMap tensors;
  weights::Metadata metadata;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!entry.second.empty()) {
      metadata.insert_or_assign(std::string(entry.first), std::string(entry.second));
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    std::optional<Shape> shape = ParseShape(words.first);
    if (shape) tensors.insert_or_assign(std::string(words.second), MakeTensor(*std::move(shape)));
  }
  const auto file = weights::RecognizeSingleFile("fuzzed", tensors, metadata);
  if (file.ok()) {
    Require(file->parts.contains("unet") && nlohmann::json::accept(file->scheduler_config));
    for (const auto& [component, part] : file->parts) Check(part);
  }
  // One component for each input, by its length: all of them would take five times as long.
  constexpr const char* kComponents[] = {"unet", "vae", "vae_tiny", "text_encoder",
                                         "text_encoder_2"};
  const auto part =
      weights::RecognizePart("fuzzed", kComponents[size % std::size(kComponents)], tensors);
  if (part.ok()) Check(*part);
  return 0;
}
