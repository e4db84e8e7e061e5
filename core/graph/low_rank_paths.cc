#include "core/graph/low_rank_paths.h"

#include <optional>
#include <utility>

#include "core/graph/graph_builder.h"

namespace latentd::graph {
namespace {

// A site with its place in the graph.
struct FoundSite {
  PathSite site;
  ValueId linear;
  ValueId anchor;  // the value that the path is added to: the linear, or the residual behind it
};

// The weight that is cast to that value; null: it is made of something else.
const Node* StoredWeight(const Graph& graph, ValueId id) {
  const Node* node = &graph.node(id);
  while (node->op == Op::kCast) node = &graph.node(node->operands[0]);
  return node->op == Op::kWeight ? node : nullptr;
}

// For each value the one node that reads it, or -1 if none, several, or an output do.
std::vector<ValueId> OnlyReaders(const Graph& graph) {
  const std::vector<int> uses = graph.UseCounts();
  std::vector<ValueId> readers(graph.size(), -1);
  for (ValueId id = 0; id < graph.size(); ++id) {
    for (ValueId operand : graph.node(id).operands) {
      if (uses[operand] == 1) readers[operand] = id;
    }
  }
  for (const Output& output : graph.outputs()) readers[output.value] = -1;
  return readers;
}

ValueId AnchorOf(const Graph& graph, ValueId linear, const std::vector<ValueId>& readers) {
  const ValueId reader = readers[linear];
  if (reader < 0 || graph.node(reader).op != Op::kAdd) return linear;
  for (ValueId operand : graph.node(reader).operands) {
    if (graph.node(operand).shape != graph.node(linear).shape) return linear;
  }
  return reader;
}

std::optional<FoundSite> SiteAt(const Graph& graph, ValueId id, int64_t rows,
                                const std::vector<ValueId>& readers) {
  const Node& node = graph.node(id);
  if (node.op != Op::kLinear || node.rate != Rate::kStep) return std::nullopt;
  const Node* const weight = StoredWeight(graph, node.operands[1]);
  if (weight == nullptr || node.shape.rank() < 2 || node.shape[0] != rows) return std::nullopt;
  return FoundSite{
      {weight->name, weight->shape[1], weight->shape[0]}, id, AnchorOf(graph, id, readers)};
}

std::vector<FoundSite> FindSites(const Graph& graph, int64_t rows) {
  const std::vector<ValueId> readers = OnlyReaders(graph);
  std::vector<FoundSite> found;
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (auto site = SiteAt(graph, id, rows, readers)) found.push_back(*std::move(site));
  }
  return found;
}

std::vector<PathSite> SitesOf(const std::vector<FoundSite>& found) {
  std::vector<PathSite> sites;
  for (const FoundSite& one : found) sites.push_back(one.site);
  return sites;
}

class PathRewrite {
 public:
  PathRewrite(const Graph& graph, int64_t rows, int64_t slots, int64_t ranks)
      : graph_(graph),
        slots_(slots),
        found_(FindSites(graph, rows)),
        layout_(SitesOf(found_), ranks),
        values_(graph.size()) {
    if (found_.empty()) return;
    const DType dtype = graph.node(found_[0].linear).dtype;
    paths_ = b_.Input(kPathsInput, dtype, {slots, layout_.slot_elements}, Rate::kStep);
    slot_ = b_.Input(kPathSlotInput, DType::kI64, {rows}, Rate::kStep);
    scales_ = b_.Input(kPathScalesInput, DType::kF32, {rows, layout_.scale_elements}, Rate::kStep);
  }

  absl::StatusOr<Graph> Run() && {
    if (found_.empty()) {
      return absl::InvalidArgumentError("no linear of the graph can have a low-rank path");
    }
    for (ValueId id = 0; id < graph_.size(); ++id) {
      Node node = graph_.node(id);
      for (ValueId& operand : node.operands) operand = values_[operand].id;
      values_[id] = b_.Append(std::move(node));
      for (size_t i = 0; i < found_.size(); ++i) {
        if (found_[i].anchor == id) values_[id] = WithPath(i, values_[id]);
      }
    }
    for (const Output& output : graph_.outputs()) b_.Output(output.name, values_[output.value]);
    return std::move(b_).Build();
  }

 private:
  Value WithPath(size_t index, Value base) {
    const FoundSite& found = found_[index];
    const PathLayout::Place& place = layout_.places[index];
    const int64_t ranks = layout_.ranks, in = found.site.in, out = found.site.out;
    const Node& linear = graph_.node(found.linear);
    const Value scale = b_.Slice(scales_, 1, place.scale, place.scale + ranks);
    return b_.LowRank(base, values_[linear.operands[0]],
                      {.down = Matrices(place.down, {slots_, ranks, in}, linear.dtype),
                       .up = Matrices(place.up, {slots_, out, ranks}, linear.dtype),
                       .slot = slot_,
                       .scale = scale});
  }

  Value Matrices(int64_t begin, const Shape& shape, DType dtype) {
    const Value part = b_.Slice(paths_, 1, begin, begin + shape[1] * shape[2]);
    const Value matrices = b_.Reshape(part, shape);
    return b_.node(paths_).dtype == dtype ? matrices : b_.Cast(matrices, dtype);
  }

  const Graph& graph_;
  const int64_t slots_;
  const std::vector<FoundSite> found_;
  const PathLayout layout_;
  GraphBuilder b_;
  std::vector<Value> values_;
  Value paths_, slot_, scales_;
};

}  // namespace

PathLayout::PathLayout(absl::Span<const PathSite> sites, int64_t ranks) : ranks(ranks) {
  for (const PathSite& site : sites) {
    Place& place = places.emplace_back();
    place.down = slot_elements;
    place.up = place.down + ranks * site.in;
    place.scale = scale_elements;
    slot_elements = place.up + ranks * site.out;
    scale_elements += ranks;
  }
}

PathSites FindPathSites(const Graph& step, int64_t rows) {
  const std::vector<FoundSite> found = FindSites(step, rows);
  PathSites result = {SitesOf(found)};
  if (!found.empty()) result.dtype = step.node(found[0].linear).dtype;
  return result;
}

absl::StatusOr<Graph> AddPaths(const Graph& step, int64_t rows, int64_t slots, int64_t ranks) {
  return PathRewrite(step, rows, slots, ranks).Run();
}

}  // namespace latentd::graph
