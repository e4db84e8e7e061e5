#include "tests/golden/case_files.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"

namespace latentd::golden {

absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, size_t{1} << 24));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(path, " is not JSON"));
  return value;
}

absl::StatusOr<device::ConstBuffer> FindTensor(const weights::TensorMap& tensors,
                                               const std::string& name) {
  auto found = tensors.find(name);
  if (found == tensors.end()) return absl::NotFoundError(absl::StrCat("there is no tensor ", name));
  return weights::Aligned(found->second.data);
}

absl::StatusOr<double> Distance(const device::ConstBuffer& expected,
                                const device::ConstBuffer& actual, Scale scale) {
  const auto kFloat = device::DType::kF32;
  if (expected.shape() != actual.shape() || expected.dtype() != kFloat ||
      actual.dtype() != kFloat) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of shape ", actual.shape().ToString(),
                                                   " instead of ", expected.shape().ToString(),
                                                   ", or not of float32"));
  }
  const absl::Span<const float> wanted = expected.as<float>(), got = actual.as<float>();
  double largest = 0, distance = 0, squares = 0, expected_squares = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(static_cast<double>(wanted[i]) - got[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::quiet_NaN();
    distance = std::max(distance, difference);
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    squares += difference * difference;
    expected_squares += static_cast<double>(wanted[i]) * wanted[i];
  }
  if (scale == Scale::kRootMeanSquare) return std::sqrt(squares / expected_squares);
  return scale == Scale::kRelative && largest > 0 ? distance / largest : distance;
}

}  // namespace latentd::golden
