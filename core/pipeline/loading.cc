#include "core/pipeline/loading.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/memory_limit.h"
#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

using weights::Checkpoint;

// Backends hold weights as float32.
constexpr int64_t kBytesPerElement = 4;
constexpr absl::string_view kComponents[] = {"text_encoder", "text_encoder_2", "unet", "vae"};

absl::Status GiveUp(const LoadOptions& options) {
  const bool stopped = options.give_up != nullptr && *options.give_up;
  return stopped ? absl::CancelledError("stopped while loading") : absl::OkStatus();
}

absl::StatusOr<int64_t> BytesOf(const std::vector<Checkpoint>& checkpoints) {
  int64_t bytes = 0;
  for (const Checkpoint& checkpoint : checkpoints) {
    for (absl::string_view component : kComponents) {
      if (!checkpoint.Has(component)) continue;
      ASSIGN_OR_RETURN(const weights::WeightSize size, checkpoint.SizeOf(component));
      bytes += size.elements * kBytesPerElement;
    }
  }
  return bytes;
}

// Reads every tensor, which takes seconds for gigabytes: only asked where the sum above does not
// fit.
absl::StatusOr<int64_t> BytesOfDistinctTensors(const std::vector<Checkpoint>& checkpoints,
                                               const LoadOptions& options) {
  int64_t bytes = 0;
  absl::flat_hash_set<Digest> seen;
  for (const Checkpoint& checkpoint : checkpoints) {
    for (absl::string_view component : kComponents) {
      if (!checkpoint.Has(component)) continue;
      RETURN_IF_ERROR(GiveUp(options));
      ASSIGN_OR_RETURN(const weights::TensorMap tensors, checkpoint.LoadTensors(component));
      for (const auto& [name, tensor] : tensors) {
        const bool is_new = seen.insert(weights::ContentDigest(tensor.data).Get()).second;
        if (is_new) bytes += tensor.data.elements() * kBytesPerElement;
      }
    }
  }
  return bytes;
}

absl::Status CheckMemory(const std::vector<Checkpoint>& checkpoints, const LoadOptions& options) {
  AvailableMemory available = MeasureAvailableMemory();
  if (options.memory_bytes > 0 && options.memory_bytes < available.bytes) {
    available = {options.memory_bytes, "the configured memory budget"};
  }
  ASSIGN_OR_RETURN(int64_t needed, BytesOf(checkpoints));
  if (needed <= available.bytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(needed, BytesOfDistinctTensors(checkpoints, options));
  if (needed <= available.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the weights need ", needed,
                                                   " bytes of memory and ", available.bytes,
                                                   " are available (", available.source, ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> LoadPipeline(const LoadOptions& options,
                                                             weights::WeightStore& store,
                                                             compiler::GraphStore& graphs) {
  std::vector<Checkpoint> checkpoints;
  for (const std::string& path : {options.base, options.refiner}) {
    if (path.empty() && !checkpoints.empty()) continue;
    ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path, options.variant));
    checkpoints.push_back(std::move(checkpoint));
  }
  RETURN_IF_ERROR(CheckMemory(checkpoints, options));
  std::unique_ptr<const SdxlModel> models[2];
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    RETURN_IF_ERROR(GiveUp(options));
    const Model which = i == 0 ? Model::kBase : Model::kRefiner;
    ASSIGN_OR_RETURN(models[i], SdxlModel::Load(which, checkpoints[i], store, graphs));
  }
  return Pipeline::Create(std::move(models[0]), std::move(models[1]));
}

}  // namespace latentd::pipeline
