#include "core/weights/scaled_source.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/graph/graph_builder.h"

namespace latentd::weights {
namespace {

constexpr absl::string_view kScaleNames[] = {"scale_weight", "weight_scale"};

// Absent where none is beside the tensor of that name.
TensorMap::const_iterator FindScale(const TensorMap& tensors, absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, "weight")) return tensors.end();
  for (absl::string_view scale_name : kScaleNames) {
    const auto scale = tensors.find(absl::StrCat(name, scale_name));
    if (scale != tensors.end()) return scale;
  }
  return tensors.end();
}

absl::StatusOr<Source> Times(const StoredTensor& tensor, const StoredTensor& scale) {
  graph::GraphBuilder b;
  const graph::Value one = b.Reshape(b.Weight("scale", scale.data.shape()), device::Shape());
  b.Output("result", b.Mul(b.Weight("stored", tensor.data.shape()), one));
  absl::StatusOr<graph::Graph> product = std::move(b).Build();
  if (!product.ok()) return product.status();
  // In the order of the graph's weights.
  return Compose(*product, {Source::Of(scale), Source::Of(tensor)});
}

}  // namespace

Source ScaledSource(const TensorMap& tensors, const std::string& name) {
  const StoredTensor& tensor = tensors.at(name);
  const auto scale = FindScale(tensors, name);
  if (scale == tensors.end()) return Source::Of(tensor);
  absl::StatusOr<Source> scaled = Times(tensor, scale->second);
  if (scaled.ok()) return *std::move(scaled);
  StoredTensor unusable = tensor;
  unusable.unusable_dtype = absl::StrCat(
      device::Name(tensor.data.dtype()), " with the scale ", scale->first, " of shape ",
      scale->second.data.shape().ToString(), ", where one number is read");
  return Source::Of(std::move(unusable));
}

SourceMap SourcesOf(const TensorMap& tensors) {
  SourceMap sources;
  sources.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const bool scales = device::IsF8(tensor.data.dtype());
    sources.emplace(name, scales ? ScaledSource(tensors, name) : Source::Of(tensor));
  }
  return sources;
}

}  // namespace latentd::weights
