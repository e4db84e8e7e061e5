// Sources of what a LoRA changes: graphs over its tensors (and the weight, for DoRA), in float32.
//
// Formulas: LoRA, Hu et al. 2021; LoHa and LoKr as LyCORIS computes them when it trains; DoRA, Liu
// et al. 2024. Thread-safe: free functions without state.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/adapters/lora/lora.h"
#include "core/weights/source.h"

namespace latentd::adapters {

// The change's delta times `factor`, in its shape, without its magnitude. INVALID_ARGUMENT: the
// change's scale times `factor` is beyond float32.
absl::StatusOr<weights::Source> DeltaSource(const WeightChange& change, double factor);

// The delta of a convolution with zeros behind its second dimension, so that it has the shape of
// `weight`. INVALID_ARGUMENT: it differs in another way.
absl::StatusOr<weights::Source> PaddedDelta(const weights::Source& delta,
                                            const weights::Source& weight);

// `weight` plus all `deltas`, which are of its shape, added to each other first, in this order.
absl::StatusOr<weights::Source> SumOf(const weights::Source& weight,
                                      const std::vector<weights::Source>& deltas);

// DoRA: V = `weight` + `delta`, with the lengths of its rows or columns, ‖V‖, replaced by the
// magnitude m. `delta` is of the weight's shape.
//  * kPeft: m * V / ‖V‖, whatever `by` is: the user's weight is in the delta.
//  * kLycoris: W + by * (m * V / (‖V‖ + epsilon) - W), epsilon that of float32.
// INVALID_ARGUMENT: the magnitude has not as many numbers as the weight rows or columns; `by` is
// beyond float32.
absl::StatusOr<weights::Source> WithMagnitude(const weights::Source& weight,
                                              const weights::Source& delta,
                                              const Magnitude& magnitude, double by);

}  // namespace latentd::adapters
