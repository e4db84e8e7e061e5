// Recipes on this backend's own kernels: each is lowered like any other graph, its weights as
// inputs, and run once, in memory of its own.
//
// Internal to this directory. Throws what oneDNN throws, and std::bad_alloc.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/cpu/binding/bound_kernel.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cpu {

// As CpuBackend's methods of these names. REQUIRES: this thread's ThreadCount is the machine's.
absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                   absl::Span<const device::ConstBuffer> sources,
                                   const weights::WeightFormat& format, const Machine& machine);
// `to` is aligned to device::kAlignment.
absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                        absl::string_view form, absl::Span<char> to, const Machine& machine);

}  // namespace latentd::backends::cpu
