// Reads the files of the golden cases.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/weights/stored_tensor.h"

namespace latentd::golden {

// INVALID_ARGUMENT unless the file is JSON.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path);

// NOT_FOUND names a tensor that the file lacks.
absl::StatusOr<device::ConstBuffer> FindTensor(const weights::TensorMap& tensors,
                                               const std::string& name);

// How far two float tensors are apart: their largest difference; that divided by the largest
// absolute value of `expected`; or the root of the mean square of the difference, divided by that
// of `expected`. NaN if either has a NaN. INVALID_ARGUMENT if their shapes differ or one is not
// float32.
enum class Scale { kAbsolute, kRelative, kRootMeanSquare };
absl::StatusOr<double> Distance(const device::ConstBuffer& expected,
                                const device::ConstBuffer& actual, Scale scale);

}  // namespace latentd::golden
