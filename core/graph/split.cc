#include "core/graph/split.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"
#include "core/graph/row_split.h"

namespace latentd::graph {
namespace {

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
    Pack(values, builder);
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

  // For each dtype one row of its packed values, flattened, one behind the other.
  void Pack(absl::Span<const Value> values, GraphBuilder& builder) const {
    std::map<DType, std::vector<Value>> parts;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!packed_[id]) continue;
      const Value flat = builder.Reshape(values[id], {1, builder.shape(values[id]).elements()});
      parts[graph_.node(id).dtype].push_back(flat);
    }
    for (const auto& [dtype, flat] : parts) {
      builder.Output(NameOf(dtype), flat.size() == 1 ? flat[0] : builder.Concat(flat, 1));
    }
  }

  absl::StatusOr<Graph> BuildStep() const {
    GraphBuilder builder;
    std::map<DType, Value> packed;
    for (const auto& [dtype, width] : PackedWidths()) {
      packed[dtype] = builder.Input(NameOf(dtype), dtype, {rows_, width}, Rate::kStep);
    }
    std::vector<Value> values(graph_.size());
    std::map<DType, int64_t> offsets;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (packed_[id]) values[id] = Unpack(node, packed[node.dtype], offsets[node.dtype], builder);
      if (step_[id]) values[id] = builder.Append(Renumbered(id, values));
    }
    for (const Output& output : graph_.outputs()) builder.Output(output.name, values[output.value]);
    return std::move(builder).Build();
  }

  Value Unpack(const Node& node, Value packed, int64_t& offset, GraphBuilder& builder) const {
    const int64_t begin = offset;
    offset += node.shape.elements() / rows_;
    const Value flat = builder.Slice(packed, 1, begin, offset);
    return node.shape == builder.shape(flat) ? flat : builder.Reshape(flat, node.shape);
  }

  std::map<DType, int64_t> PackedWidths() const {
    std::map<DType, int64_t> widths;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (packed_[id]) widths[node.dtype] += node.shape.elements() / rows_;
    }
    return widths;
  }

  static std::string NameOf(DType dtype) {
    return absl::StrCat(kPackedPrefix, device::Name(dtype));
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
