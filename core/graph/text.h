// The canonical text of a graph: golden file, debug dump and, hashed, the heart of the cache key.
//
//   latentd graph 1
//   %0 = input "x" rate=step : f32[1,4,8,8]
//   %1 = weight "w" : f32[8,4,3,3]
//   %2 = conv2d(%0, %1) stride=1 padding=[1,1,1,1] layout=nchw : f32[1,8,8,8]
//   %3 = fused(%2) kind="activation" body={
//     %0 = input "0" rate=step : f32[1,8,8,8]
//     %1 = silu(%0) : f32[1,8,8,8]
//     output "result" = %1
//   } : f32[1,8,8,8]
//   output "y" = %3
//
// Attributes come in the order of their struct, floats in the shortest form that reads back to the
// same bits. Two graphs have one text iff they are equal node by node. The number in the first line
// is the printer's version: change it with the format, since that changes every key.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/text/digest.h"
#include "core/graph/graph.h"

namespace latentd::graph {

std::string ToText(const Graph& graph);

// Reads exactly what ToText prints: ToText(*ParseText(text)) == text. Anything else, a graph that
// Verify refuses included, is INVALID_ARGUMENT with its line. Made for hostile text: time and
// memory are bounded by a small multiple of the text's size, which may be at most 16 MiB.
absl::StatusOr<Graph> ParseText(absl::string_view text);

// Digest of the text.
Digest GraphDigest(const Graph& graph);

}  // namespace latentd::graph
