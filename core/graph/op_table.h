// One row per op says all that is true of it: its name in the text form, how many operands it
// takes, the rule that gives the result's dtype and shape, whether it keeps rows apart, what
// precision and layout may do to it, whether it is an activation, and where its result may lie.
//
// Adding an op takes four places, and none can be forgotten: its row (op_table.cc) and what it
// computes (core/backends/reference/operators.cc), without which that file does not compile; its
// kernel (core/backends/lowering/kernel.cc), without which no fast backend compiles, and a kernel
// in each of these; its cases (tests/conformance), without which that suite fails and names it.
#pragma once

#include <optional>
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

// Tells if the op computes each row, a block of dimension 0, from that row of its operands alone
// (row_split.h). Operands of the checkpoint rate belong to all rows.
enum class RowRule : uint8_t {
  kKeeps,
  kFirst,          // if only the first operand differs from row to row
  kSecond,         // if only the second does
  kPooled,         // if the third and the fourth do not, of which each row chooses a part
  kLastDimension,  // if only the first does, whose last dimension, in which the op works, is no row
  kBatch,          // if its matrices are a batch, or only the first operand differs
  kBroadcast,      // if what differs from row to row is not broadcast
  kAxis,           // if its axis is not dimension 0
  kOrder,          // if dimension 0 stays where it is
  kNone,           // not before graphs are split
};

// Requirement of the op on its operands before it is computed in less than f32
// (core/passes/precision.h).
enum class PrecisionRule : uint8_t {
  kNever,   // stays f32
  kWeight,  // the second operand has to be a weight
  kTable,   // the first operand has to be a weight, or low
  kQuery,   // the first operand has to be low
  kAll,     // all operands that are no weights have to be low
  kAny,     // nothing: it reads every float, and its result is none
};

// Effect of the choice of the images' layout on an op (core/passes/image_layout.h). A permute
// from one layout to the other goes away whatever is said of it here.
enum class LayoutRule : uint8_t {
  kImages,     // its attributes name the layout of its first operand and its result
  kFollows,    // it computes values of rank 4 in the layout they come in; its axis moves with them
  kUnordered,  // its result is no image, and is the same in whatever order it reads one's elements
  kPlain,      // it reads its operands as the graph has them
};

// Tells if a product may apply it to its result (core/graph/target.h).
enum class ActivationRule : uint8_t { kActivation, kNoActivation };

// Place of an op's result.
enum class MemoryRule : uint8_t {
  kOwn,
  // In the memory of its first operand, if that has the result's shape: its kernel reads
  // all that an element of the result depends on before writing there.
  kInPlace,
  kView,  // it is its operand's elements with other strides: none has to be moved
};

// Fact on an op: a row without it does not compile, so that nothing has a default.
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
  // Makes the alternative of the variant that the op uses, with its defaults.
  Attributes (*attributes)();
  // REQUIRES: the number of operands is within the bounds and `attributes` holds that
  // alternative. An error says which operand does not fit and why.
  absl::StatusOr<ValueType> (*infer)(absl::Span<const ValueType> operands,
                                     const Attributes& attributes);
  Fact<RowRule> rows;
  Fact<PrecisionRule> precision;
  Fact<LayoutRule> layout;
  Fact<ActivationRule> activation;
  Fact<MemoryRule> memory;
};

// In the order of the enum.
absl::Span<const OpRow> OpTable();
const OpRow& RowOf(Op op);

// The layout that the attributes name, or nothing.
std::optional<Layout> LayoutOf(const Attributes& attributes);

inline bool IsLeaf(Op op) { return op <= Op::kConstant; }
inline bool IsActivation(Op op) { return RowOf(op).activation.rule == ActivationRule::kActivation; }

// Type of a non-leaf node from its operands' types: checks the count, the attributes' alternative,
// then the row's rule. No attribute value crashes it.
absl::StatusOr<ValueType> InferType(Op op, absl::Span<const ValueType> operands,
                                    const Attributes& attributes);

}  // namespace latentd::graph
