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
absl::StatusOr<device::Buffer> FindTensor(const weights::TensorMap& tensors,
                                          const std::string& name);

// The largest difference of two float tensors; with `relative`, divided by the largest absolute
// value of `expected`. NaN if either has a NaN. INVALID_ARGUMENT if their shapes differ or one is
// not float32.
enum class Scale { kAbsolute, kRelative };
absl::StatusOr<double> Distance(const device::Buffer& expected, const device::Buffer& actual,
                                Scale scale);

}  // namespace latentd::golden
