// One row per op: its name in the text form, how many operands it takes, the rule that gives the
// result's dtype and shape, whether it keeps rows apart, and what precision may do to it. Adding an
// op is a row here, a row in the reference backend, and its case in tests/conformance.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace latentd::graph {

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const ValueType&) const = default;
};

// "f32[2,4,32,32]".
std::string ToString(const ValueType& type);

// Bounds that keep sizes and their sums inside int64_t and a hostile graph small.
inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr size_t kMaxConstantElements = size_t{1} << 16;

// OK iff every size is at least 1 and rank and elements are within the bounds above.
absl::Status CheckShape(const Shape& shape);

// Whether the op computes each row, a block of dimension 0, from that row of its operands alone
// (row_split.h). Operands of the checkpoint rate belong to all rows.
enum class RowRule : uint8_t {
  kKeeps,
  kFirst,          // if only the first operand differs from row to row
  kSecond,         // if only the second does
  kLastDimension,  // if only the first does, whose last dimension, in which the op works, is no row
  kBatch,          // if its matrices are a batch, or only the first operand differs
  kBroadcast,      // if what differs from row to row is not broadcast
  kAxis,           // if its axis is not dimension 0
  kOrder,          // if dimension 0 stays where it is
  kNone,           // not before graphs are split
};

// What the op asks of its operands before it is computed in less than f32
// (core/passes/precision.h).
enum class PrecisionRule : uint8_t {
  kNever,   // stays f32
  kWeight,  // that the second operand is a weight
  kTable,   // that the first operand is a weight, or low
  kQuery,   // that the first operand is low
  kAll,     // that all that are no weights are low
};

// What is true of an op: a row without it does not compile, so that nothing has a default.
template <typename Rule>
struct Fact {
  constexpr Fact(Rule rule)
      : rule(rule) {}  // NOLINT(google-explicit-constructor): reads as a value
  Rule rule;
};

struct OpRow {
  Op op;
  absl::string_view name;  // "conv2d"
  int min_operands;
  int max_operands;  // -1: no bound
  // The alternative of the variant that the op uses, with its defaults.
  Attributes attributes;
  // REQUIRES: the number of operands is within the bounds and `attributes` holds the row's
  // alternative. An error says which operand does not fit and why.
  absl::StatusOr<ValueType> (*infer)(absl::Span<const ValueType> operands,
                                     const Attributes& attributes);
  Fact<RowRule> rows;
  Fact<PrecisionRule> precision;
};

// In the order of the enum.
absl::Span<const OpRow> OpTable();
const OpRow& RowOf(Op op);

inline bool IsLeaf(Op op) { return op <= Op::kConstant; }

// Type of a non-leaf node from its operands' types: checks the count, the attributes' alternative,
// then the row's rule. No attribute value crashes it.
absl::StatusOr<ValueType> InferType(Op op, absl::Span<const ValueType> operands,
                                    const Attributes& attributes);

}  // namespace latentd::graph
