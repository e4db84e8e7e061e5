#include "core/graph/split.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"
#include "core/graph/row_split.h"

namespace latentd::graph {
namespace {

constexpr char kPacked[] = "request";

// Builds both parts from what one look at the graph found.
class RateSplit {
 public:
  explicit RateSplit(const Graph& graph)
      : graph_(graph), step_(graph.size(), false), packed_(graph.size(), false) {}

  absl::StatusOr<SplitGraphs> Run() {
    FindParts();
    if (!computes_) return SplitGraphs{std::nullopt, graph_};
    RETURN_IF_ERROR(FindRows());
    ASSIGN_OR_RETURN(Graph request, BuildRequest());
    ASSIGN_OR_RETURN(Graph step, BuildStep());
    return SplitGraphs{std::move(request), std::move(step)};
  }

 private:
  // step_: nodes that the step part computes. packed_: request-rate values that it reads.
  void FindParts() {
    for (const Output& output : graph_.outputs()) Read(output.value);
    for (ValueId id = graph_.size() - 1; id >= 0; --id) {
      if (!step_[id]) continue;
      for (ValueId operand : graph_.node(id).operands) Read(operand);
    }
  }

  void Read(ValueId id) {
    const bool request = graph_.node(id).rate == Rate::kRequest;
    (request ? packed_ : step_)[id] = true;
    if (request && graph_.node(id).op != Op::kInput) computes_ = true;
  }

  absl::Status FindRows() {
    request_.assign(graph_.size(), false);
    for (ValueId id = graph_.size() - 1; id >= 0; --id) {
      if (packed_[id]) request_[id] = true;
      if (!request_[id]) continue;
      for (ValueId operand : graph_.node(id).operands) request_[operand] = true;
    }
    for (ValueId id : graph_.Select(Op::kInput)) {
      if (request_[id]) RETURN_IF_ERROR(CheckInput(graph_.node(id)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInput(const Node& input) {
    const int64_t rows = input.shape.rank() > 0 ? input.shape[0] : 0;
    if (rows_ == 0) rows_ = rows;
    if (rows == rows_ && rows > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("request input \"", input.name, "\" ", input.shape.ToString(),
                     " must have the rows in dimension 0, ", rows_, " as the others"));
  }

  // The shape of one row of a request-rate value.
  absl::StatusOr<Shape> OneRow(const Shape& shape) const {
    if (shape.rank() == 0 || shape[0] % rows_ != 0) {
      return absl::InvalidArgumentError(absl::StrCat("dimension 0 of ", shape.ToString(),
                                                     " is not a multiple of the ", rows_, " rows"));
    }
    std::vector<int64_t> dims = shape.dims();
    dims[0] /= rows_;
    return Shape(std::move(dims));
  }

  absl::StatusOr<Graph> BuildRequest() {
    GraphBuilder builder;
    std::vector<Value> values(graph_.size());
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!request_[id]) continue;
      absl::StatusOr<Value> value = AppendOneRow(id, values, builder);
      if (!value.ok()) return Blame(id, value.status());
      values[id] = *value;
    }
    RETURN_IF_ERROR(Pack(values, builder));
    return std::move(builder).Build();
  }

  absl::StatusOr<Value> AppendOneRow(ValueId id, absl::Span<const Value> values,
                                     GraphBuilder& builder) const {
    Node node = Renumbered(id, values);
    if (node.rate == Rate::kCheckpoint) return builder.Append(std::move(node));
    RETURN_IF_ERROR(CheckKeepsRows(graph_, graph_.node(id)));
    ASSIGN_OR_RETURN(const Shape one_row, OneRow(node.shape));
    node.shape = one_row;
    if (node.op == Op::kReshape) node.attributes = ReshapeAttributes{one_row};
    const Value value = builder.Append(std::move(node));
    RETURN_IF_ERROR(builder.status());
    if (builder.shape(value) == one_row) return value;
    return absl::InvalidArgumentError(absl::StrCat(
        "one row of it is ", builder.shape(value).ToString(), ", not ", one_row.ToString()));
  }

  // One row of every packed value, flattened, one behind the other.
  absl::Status Pack(absl::Span<const Value> values, GraphBuilder& builder) const {
    std::vector<Value> parts;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!packed_[id]) continue;
      if (const DType dtype = graph_.node(id).dtype; dtype == DType::kI64) {
        return Blame(id, absl::InvalidArgumentError("the step part reads it, but i64 does not fit "
                                                    "into the packed f32 value"));
      }
      Value part = values[id];
      if (builder.node(part).dtype != DType::kF32) part = builder.Cast(part, DType::kF32);
      parts.push_back(builder.Reshape(part, {1, builder.shape(part).elements()}));
    }
    builder.Output(kPacked, parts.size() == 1 ? parts[0] : builder.Concat(parts, 1));
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> BuildStep() const {
    GraphBuilder builder;
    const Value packed = builder.Input(kPacked, DType::kF32, {rows_, PackedWidth()}, Rate::kStep);
    std::vector<Value> values(graph_.size());
    int64_t offset = 0;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (packed_[id]) values[id] = Unpack(graph_.node(id), packed, &offset, builder);
      if (step_[id]) values[id] = builder.Append(Renumbered(id, values));
    }
    for (const Output& output : graph_.outputs()) builder.Output(output.name, values[output.value]);
    return std::move(builder).Build();
  }

  Value Unpack(const Node& node, Value packed, int64_t* offset, GraphBuilder& builder) const {
    const int64_t begin = *offset;
    *offset += node.shape.elements() / rows_;
    const Value flat = builder.Slice(packed, 1, begin, *offset);
    const Value shaped =
        node.shape == builder.shape(flat) ? flat : builder.Reshape(flat, node.shape);
    return node.dtype == DType::kF32 ? shaped : builder.Cast(shaped, node.dtype);
  }

  int64_t PackedWidth() const {
    int64_t width = 0;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (packed_[id]) width += graph_.node(id).shape.elements() / rows_;
    }
    return width;
  }

  Node Renumbered(ValueId id, absl::Span<const Value> values) const {
    Node node = graph_.node(id);
    for (ValueId& operand : node.operands) operand = values[operand].id;
    return node;
  }

  absl::Status Blame(ValueId id, const absl::Status& status) const {
    const Node& node = graph_.node(id);
    return absl::InvalidArgumentError(
        absl::StrCat("node ", id, " (", RowOf(node.op).name, node.name.empty() ? "" : " ",
                     node.name, ") cannot be split by rows: ", status.message()));
  }

  const Graph& graph_;
  std::vector<bool> step_, packed_, request_;
  bool computes_ = false;
  int64_t rows_ = 0;
};

}  // namespace

absl::StatusOr<SplitGraphs> SplitByRate(const Graph& graph) { return RateSplit(graph).Run(); }

}  // namespace latentd::graph
