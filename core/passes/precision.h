// Chooses for every value of an f32 graph whether it is computed in a lesser dtype ("low"), by
// torch's rules of promotion: what comes out is what the networks' modules compute after
// module.to(dtype), but that sums, norms and softmax run in f32 inside an op.
//
//   low        convolutions, linears and look-ups that read a checkpoint's weight; attention whose
//              query is low; norms, elementwise and movement of low operands. Their other operands
//              are cast down: weights at the checkpoint rate, so that half as much is held.
//              A cast to f32 of what comes in the low dtype stays low: so a network reads it.
//   f32        what reads a weight that Precision::f32_weights names, or a value that the network
//              itself casts to f32; what has an f32 operand and is none of the above (the others
//              are cast up); matmul, softmax, row_std and timestep_embedding: the step graph's
//              guidance and noise scheduler are exactly those of f32
//
// Inputs and outputs keep their dtype, and so does what is not f32 to begin with. It comes before
// all passes, and before a graph is split by rate: the passes remove the casts to f32 by which a
// network says what must stay f32, and would leave fused nodes for it, which it leaves in f32.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> ChoosePrecision(const graph::Graph& graph,
                                             const graph::Precision& precision);

}  // namespace latentd::passes
