// Recipes on the device: each is lowered like any other graph, its weights as inputs, and run once,
// in memory that the stream gives and takes back. A LoRA changes hundreds of linears by recipes of
// some twenty texts, so that what was bound is kept for others of its text.
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/base/text/digest.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cuda {

struct BoundRecipe;

// Thread-safe. What is bound runs on several streams at once.
class BoundRecipes {
 public:
  // Kept beside each other; beyond, all are forgotten.
  static constexpr size_t kMost = 256;

  using Pointer = std::shared_ptr<const BoundRecipe>;
  absl::StatusOr<Pointer> FindOrBind(const graph::Graph& recipe, const Gpu& gpu)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Number of those that are kept.
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, Pointer> kept_ ABSL_GUARDED_BY(mutex_);  // by the recipe's text
};

// As CudaBackend's methods of these names.
absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe, const weights::WeightFormat& format,
                                   const Gpu& gpu, BoundRecipes& bound);
absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                        absl::string_view form, const device::Buffer& to, const Gpu& gpu,
                        BoundRecipes& bound, cudaStream_t stream);

}  // namespace latentd::backends::cuda
