// Makes linears and convolutions multiply 8-bit floats (e4m3), those whose weight
// Precision::f8_weights or f8_convolutions names, f8_exceptions does not, and whose operand has a
// bound (f8_bounds.h): both are divided by a power of two and rounded, once for all that read the
// operand. Where no bound is known, a product stays as it is, and so does one with a number of
// channels, in or out, that is no multiple of 16, as GPUs want them.
//
// All products of one operand have one scale for their weights, so that linears can still be
// merged: e4m3 keeps the same number of bits over 15 powers of two, so that a weight of less than
// the largest loses nothing by that until it is 2^-14 of it, and by a scale of its own would be the
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

absl::StatusOr<graph::Graph> QuantizeProducts(const graph::Graph& graph,
                                              const graph::Precision& precision);

}  // namespace latentd::passes
