// Messages between a process that tries algorithms and its parent (trial_process.h), as bytes. Both
// are the same program.
//
// Internal to this directory. Thread-safe: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/chooser.h"
#include "core/backends/cuda/libraries/cublas_lt.h"

namespace latentd::backends::cuda {

struct TrialTask {
  uint32_t number = 0;
  ProductShape shape = {};
  std::vector<std::string> left_out = {};  // algorithms, as bytes
};

// Either is about the task of that number.
struct TrialReport {
  uint32_t number = 0;
  std::string algorithm = {};  // is run next, where there is no answer
  std::optional<absl::StatusOr<Choice>> answer = std::nullopt;  // the last report
};

std::string Write(const TrialTask& task);
std::string Write(const TrialReport& report);

// INVALID_ARGUMENT: bytes that Write did not make.
absl::StatusOr<TrialTask> ReadTask(absl::string_view packet);
absl::StatusOr<TrialReport> ReadReport(absl::string_view packet);

}  // namespace latentd::backends::cuda
