// Makes linears multiply 8-bit floats (e4m3), those whose weight Precision::f8_weights names and
// whose operand has a bound (f8_bounds.h): both are divided by a power of two and rounded, once for
// all linears that read the operand. Where no bound is known, a linear stays as it is, and so does
// one whose sides are no multiples of 16, as GPUs want them.
//
// All linears of one operand have one scale for their weights, so that they can still be merged:
// e4m3 keeps the same number of bits over 15 powers of two, so that a weight of less than the
// largest loses nothing by that until it is 2^-14 of it, and by a scale of its own would be the
// same number.
//
// It comes after ChoosePrecision, before a graph is split by rate: scales and quantised weights are
// recipes.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"

namespace latentd::passes {

// True if the name is of that pattern, in which * is any text, also none.
bool Matches(absl::string_view pattern, absl::string_view name);

absl::StatusOr<graph::Graph> QuantizeLinears(const graph::Graph& graph,
                                             const graph::Precision& precision);

}  // namespace latentd::passes
