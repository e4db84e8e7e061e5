// LoRAs as low-rank paths beside a network's linears (core/graph/low_rank_paths.h): what rows of
// one step can have beside each other, and a merged weight cannot. The result is base + path where
// the weights are W + path merged, which is the same but for rounding.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/merge_loras.h"
#include "core/graph/low_rank_paths.h"
#include "core/weights/source.h"

namespace latentd::adapters {

// True if all that it changes are linears, by low-rank products alone: no convolution, bias or
// norm, no other kind of delta, no magnitude.
bool IsPlain(const Lora& lora);

// Matrices of the LoRAs in one slot, [PathLayout::slot_elements] in `dtype`: at each site the ranks
// of one LoRA behind those of another, in the order given, and zeros. Changes of weights that are
// no site are left out. REQUIRES: each LoRA is plain. INVALID_ARGUMENT names a weight at which they
// have more ranks than `ranks` together.
absl::StatusOr<weights::Source> PathMatrices(absl::Span<const WeightedLora> loras,
                                             absl::Span<const graph::PathSite> sites, int64_t ranks,
                                             device::DType dtype);

// Factors of those ranks, [PathLayout::scale_elements]: the LoRAs' own times the user's for the
// UNet. INVALID_ARGUMENT names a weight for which that is beyond float32. REQUIRES: PathMatrices
// has them.
absl::StatusOr<std::vector<float>> PathScales(absl::Span<const WeightedLora> loras,
                                              absl::Span<const graph::PathSite> sites,
                                              int64_t ranks);

}  // namespace latentd::adapters
