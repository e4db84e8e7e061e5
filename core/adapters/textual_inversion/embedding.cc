#include "core/adapters/textual_inversion/embedding.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/adapters/lora/lora_keys.h"
#include "core/adapters/lora/tensor_values.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/weights/containers/recognize/noise_markers.h"

namespace latentd::adapters {
namespace {

using weights::StoredTensor;
using weights::TensorMap;

// Names of the vectors of two encoders, as files have them.
struct PairRow {
  absl::string_view first, second;
};
constexpr PairRow kPairs[] = {{"clip_l", "clip_g"}, {"text_encoders_0", "text_encoders_1"}};

constexpr absl::string_view kSecondEncoder = "text_encoder_2";

const PairRow* PairOf(const TensorMap& tensors) {
  for (const PairRow& pair : kPairs) {
    if (tensors.contains(pair.first) || tensors.contains(pair.second)) return &pair;
  }
  return nullptr;
}

bool IsOfVectors(const StoredTensor& tensor) {
  const int rank = static_cast<int>(tensor.data.shape().rank());
  return (rank == 1 || rank == 2) && HasFloats(tensor);
}

absl::StatusOr<EmbeddingVectors> ReadVectors(const std::string& path, absl::string_view name,
                                             const StoredTensor& tensor) {
  const auto refuse = [&](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Excerpt(name), " ", text...));
  };
  const device::Shape& shape = tensor.data.shape();
  if (!IsOfVectors(tensor)) {
    return refuse("is no vectors of a textual inversion: [vectors, features] of floats, not ",
                  shape.ToString());
  }
  const int64_t count = shape.rank() == 1 ? 1 : shape[0];
  const int64_t width = shape.rank() == 1 ? shape[0] : shape[1];
  if (count < 1 || count > kMostVectors || width < 1) {
    return refuse("has the shape ", shape.ToString(), "; a word stands for 1 to ", kMostVectors,
                  " tokens");
  }
  EmbeddingVectors vectors{.width = width};
  const std::optional<std::vector<double>> values = weights::ReadValues(tensor);
  if (values) vectors.values.assign(values->begin(), values->end());
  const bool are_finite =
      values && absl::c_all_of(vectors.values, [](float value) { return std::isfinite(value); });
  if (!are_finite) return refuse("has values that are not finite (NaN or infinity)");
  return vectors;
}

absl::StatusOr<EmbeddingVectors> ReadNamed(const std::string& path, const TensorMap& tensors,
                                           absl::string_view name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return EmbeddingVectors();
  return ReadVectors(path, name, found->second);
}

}  // namespace

int64_t Embedding::most_vectors() const {
  return std::max({only.count(), first.count(), second.count()});
}

bool IsEmbedding(const TensorMap& tensors) {
  if (PairOf(tensors) != nullptr) return tensors.size() <= 2 * std::size(kPairs);
  if (tensors.size() != 1) return false;
  const auto& [name, tensor] = *tensors.begin();
  const bool is_of_lora = SplitKey(NormalKey(name)).has_value() || !OtherKind(name, tensor).empty();
  return IsOfVectors(tensor) && (name == "emb_params" || !is_of_lora);
}

absl::StatusOr<Embedding> ReadEmbedding(const std::string& path, const TensorMap& tensors) {
  Embedding embedding;
  const PairRow* pair = PairOf(tensors);
  if (pair == nullptr) {
    const auto& [name, tensor] = *tensors.begin();
    ASSIGN_OR_RETURN(embedding.only, ReadVectors(path, name, tensor));
    return embedding;
  }
  ASSIGN_OR_RETURN(embedding.first, ReadNamed(path, tensors, pair->first));
  ASSIGN_OR_RETURN(embedding.second, ReadNamed(path, tensors, pair->second));
  return embedding;
}

absl::StatusOr<std::vector<EmbeddingVectors>> VectorsFor(
    const std::string& path, const Embedding& embedding,
    absl::Span<const TextEncoderWidth> encoders) {
  std::vector<EmbeddingVectors> all;
  for (const TextEncoderWidth& encoder : encoders) {
    const bool is_second = encoder.component == kSecondEncoder;
    const EmbeddingVectors* vectors = is_second ? &embedding.second : &embedding.first;
    if (encoders.size() == 1 && vectors->count() == 0) vectors = &embedding.only;
    if (vectors->count() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has no vectors for ", encoder.component, " of ", encoder.width,
          " features: it is a textual inversion for ",
          embedding.only.count() > 0
              ? absl::StrCat("a model with one text encoder of ", embedding.only.width, " features")
              : "other text encoders"));
    }
    if (vectors->width != encoder.width) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is a textual inversion for a text encoder of ", vectors->width,
                       " features, and ", encoder.component, " has ", encoder.width));
    }
    all.push_back(*vectors);
  }
  return all;
}

}  // namespace latentd::adapters
