#include "core/weights/containers/recognize/noise_markers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/device/dtype.h"
#include "core/weights/containers/recognize/refuse_file.h"

namespace latentd::weights {
namespace {

using device::DType;

constexpr int64_t kMostValues = 75 * 4096;  // a textual inversion of the widest encoder has no more

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

double FromF16(uint16_t bits) {
  constexpr int kMantissaBits = 10, kBias = 15;
  const int exponent = (bits >> kMantissaBits) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) == 0 ? 1 : -1;
  if (exponent == 0x1f) return sign * (mantissa == 0 ? INFINITY : NAN);
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << kMantissaBits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - kBias - kMantissaBits);
}

double FromBF16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// F8_E4M3 has no infinities, and one NaN of each sign. Another name is FN.
double FromF8E4M3(uint8_t bits) {
  constexpr int kMantissaBits = 3, kBias = 7, kNan = 0x7f;
  if ((bits & kNan) == kNan) return NAN;
  const int exponent = (bits >> kMantissaBits) & 0xf;
  const int mantissa = bits & 0x7;
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << kMantissaBits);
  const double sign = (bits & 0x80) == 0 ? 1 : -1;
  return sign * std::ldexp(whole, std::max(exponent, 1) - kBias - kMantissaBits);
}

// F8_E5M2 is the upper half of an F16.
double FromF8E5M2(uint8_t bits) { return FromF16(static_cast<uint16_t>(bits << 8)); }

// Null: values of the dtype are no floats.
using Decoder = double (*)(const char* bytes);
Decoder DecoderOf(const StoredTensor& tensor) {
  if (tensor.unusable_dtype == "F64") return [](const char* bytes) { return Load<double>(bytes); };
  if (!tensor.unusable_dtype.empty()) return nullptr;
  switch (tensor.data.dtype()) {
    case DType::kF32:
      return [](const char* bytes) -> double { return Load<float>(bytes); };
    case DType::kF16:
      return [](const char* bytes) { return FromF16(Load<uint16_t>(bytes)); };
    case DType::kBF16:
      return [](const char* bytes) { return FromBF16(Load<uint16_t>(bytes)); };
    case DType::kF8E4M3:
      return [](const char* bytes) { return FromF8E4M3(Load<uint8_t>(bytes)); };
    case DType::kF8E5M2:
      return [](const char* bytes) { return FromF8E5M2(Load<uint8_t>(bytes)); };
    default:
      return nullptr;
  }
}

absl::StatusOr<std::vector<double>> ReadLatentStatistics(const std::string& path,
                                                         const TensorMap& tensors,
                                                         const std::string& name) {
  auto values = ReadValues(tensors.at(name));
  if (values && values->size() == 4) return *std::move(values);
  return RefuseFile(path, ": the tensor ", name,
                    " has no four numbers, one for each channel of latents");
}

absl::StatusOr<NoiseMarkers> ReadPlayground(const std::string& path, const TensorMap& tensors) {
  NoiseMarkers markers = {.prediction = NoisePrediction::kEdm,
                          .decided_by = "the tensors edm_mean and edm_std",
                          .latents_mean = {},
                          .latents_std = {}};
  ASSIGN_OR_RETURN(markers.latents_mean, ReadLatentStatistics(path, tensors, "edm_mean"));
  ASSIGN_OR_RETURN(markers.latents_std, ReadLatentStatistics(path, tensors, "edm_std"));
  return markers;
}

NoiseMarkers Decided(NoisePrediction prediction, std::string by) {
  return {
      .prediction = prediction, .decided_by = std::move(by), .latents_mean = {}, .latents_std = {}};
}

NoiseMarkers ByDefault() {
  return Decided(NoisePrediction::kEpsilon, std::string(kDecidedByDefault));
}

// Nullopt: the metadata do not say.
std::optional<NoiseMarkers> FromMetadata(const Metadata& metadata) {
  constexpr absl::string_view kSays = "the metadata's modelspec.prediction_type";
  const auto found = metadata.find("modelspec.prediction_type");
  if (found == metadata.end()) return std::nullopt;
  const std::string& type = found->second;
  if (type == "v" || type == "v_prediction" || type == "v-prediction") {
    return Decided(NoisePrediction::kVelocity, std::string(kSays));
  }
  if (type == "epsilon") return Decided(NoisePrediction::kEpsilon, std::string(kSays));
  return std::nullopt;
}

// REQUIRES: one of the three names.
NoisePrediction Named(absl::string_view prediction_type, const TensorMap& tensors) {
  if (prediction_type == "sample") return NoisePrediction::kSample;
  if (prediction_type == "epsilon") return NoisePrediction::kEpsilon;
  return tensors.contains("ztsnr") ? NoisePrediction::kVelocityZeroSnr : NoisePrediction::kVelocity;
}

double StandardDeviation(const std::vector<double>& values) {
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) {
    variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  }
  return std::sqrt(variance);
}

// Stable Diffusion 2 has no marker: the biases of one of its last norms are far apart in the
// checkpoints that predict the velocity (the limit is ComfyUI's).
absl::StatusOr<NoiseMarkers> ReadBias(const std::string& path, const SourceMap& unet) {
  constexpr absl::string_view kName = "up_blocks.3.attentions.2.transformer_blocks.0.norm1.bias";
  constexpr double kLimit = 0.09;
  const auto found = unet.find(kName);
  if (found == unet.end()) return ByDefault();
  const StoredTensor& bias = found->second.from[0];
  const auto values = ReadValues(bias);
  if (!values) {
    return RefuseFile(path, ": the UNet's ", kName,
                      " cannot be read; it tells how Stable Diffusion 2 predicts");
  }
  const double deviation = StandardDeviation(*values);
  return Decided(deviation > kLimit ? NoisePrediction::kVelocity : NoisePrediction::kEpsilon,
                 absl::StrCat("the standard deviation of the UNet's ", kName, ", ", deviation,
                              deviation > kLimit ? " > " : " <= ", kLimit));
}

}  // namespace

bool IsMarked(const NoiseMarkers& markers) {
  return markers.decided_by != kDecidedByDefault && markers.decided_by != kDecidedByFlag;
}

std::optional<std::vector<double>> ReadValues(const StoredTensor& tensor) {
  const Decoder decode = DecoderOf(tensor);
  const int64_t count = tensor.data.elements();
  if (decode == nullptr || !tensor.data.has_memory() || count < 1 || count > kMostValues) {
    return std::nullopt;
  }
  const auto* bytes = static_cast<const char*>(tensor.data.data());
  const auto size = static_cast<int64_t>(tensor.data.bytes()) / count;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(decode(bytes + i * size));
  if (!absl::c_all_of(values, [](double value) { return std::isfinite(value); })) {
    return std::nullopt;
  }
  return values;
}

absl::StatusOr<NoiseMarkers> ReadNoiseMarkers(const std::string& path, const TensorMap& tensors,
                                              const Metadata& metadata, FileFamily family,
                                              const SourceMap& unet, absl::string_view said) {
  if (tensors.contains("edm_mean") && tensors.contains("edm_std")) {
    return ReadPlayground(path, tensors);
  }
  if (tensors.contains("edm_vpred.sigma_max")) {
    return RefuseFile(
        path,
        " is a checkpoint of CosXL (it has the tensor edm_vpred.sigma_max), which is not "
        "served: only Stable Diffusion 1, 2 and XL are");
  }
  if (!said.empty()) return Decided(Named(said, tensors), std::string(kDecidedByFlag));
  if (tensors.contains("v_pred")) {
    if (!tensors.contains("ztsnr")) {
      return Decided(NoisePrediction::kVelocity, "the tensor v_pred");
    }
    return Decided(NoisePrediction::kVelocityZeroSnr, "the tensors v_pred and ztsnr");
  }
  if (auto said = FromMetadata(metadata)) return *std::move(said);
  if (family == FileFamily::kSd2) return ReadBias(path, unet);
  return ByDefault();
}

}  // namespace latentd::weights
