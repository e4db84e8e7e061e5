// Recipes on the device: each is lowered like any other graph, its weights as inputs, and run once,
// in memory that the stream gives and takes back.
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cuda {

// As CudaBackend's methods of these names.
absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe, const weights::WeightFormat& format,
                                   const Gpu& gpu);
absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                        absl::string_view form, const device::Buffer& to, const Gpu& gpu,
                        cudaStream_t stream);

}  // namespace latentd::backends::cuda
