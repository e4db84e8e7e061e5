// From checkpoint directories to a pipeline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/pipeline.h"
#include "core/weights/weight_store.h"

namespace latentd::pipeline {

struct LoadOptions {
  std::string base;
  std::string refiner;  // may be empty
  std::string variant;
  int64_t memory_bytes = 0;  // 0: what the machine and the cgroup allow
  const std::atomic<bool>* give_up =
      nullptr;  // looked at between components; CANCELLED once it is true
};

// Errors name the directory, file or component at fault. RESOURCE_EXHAUSTED, with the bytes needed
// and available, if the weights as float32, equal tensors counted once, cannot fit. `store` and
// `graphs` must outlive the pipeline.
absl::StatusOr<std::unique_ptr<const Pipeline>> LoadPipeline(const LoadOptions& options,
                                                             weights::WeightStore& store,
                                                             compiler::GraphStore& graphs);

}  // namespace latentd::pipeline
