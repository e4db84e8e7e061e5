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

std::vector<std::string> ScaleNames(absl::string_view weight) {
  std::vector<std::string> names;
  if (!absl::ConsumeSuffix(&weight, "weight")) return names;
  for (absl::string_view name : kScaleNames) names.push_back(absl::StrCat(weight, name));
  return names;
}

Source ScaledSource(const StoredTensor& tensor, const StoredTensor& scale,
                    absl::string_view scale_name) {
  absl::StatusOr<Source> scaled = Times(tensor, scale);
  if (scaled.ok()) return *std::move(scaled);
  StoredTensor unusable = tensor;
  unusable.unusable_dtype =
      absl::StrCat(device::Name(tensor.data.dtype()), " with the scale ", scale_name, " of shape ",
                   scale.data.shape().ToString(), ", where one number is read");
  return Source::Of(std::move(unusable));
}

SourceMap SourcesOf(const TensorMap& tensors) {
  SourceMap sources;
  for (const auto& [name, tensor] : tensors) {
    Source source = Source::Of(tensor);
    for (const std::string& scale_name : ScaleNames(name)) {
      const auto scale = tensors.find(scale_name);
      if (!device::IsF8(tensor.data.dtype()) || scale == tensors.end()) continue;
      source = ScaledSource(tensor, scale->second, scale_name);
      break;
    }
    sources.emplace(name, std::move(source));
  }
  return sources;
}

}  // namespace latentd::weights
