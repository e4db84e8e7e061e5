#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/attribute_fields.h"
#include "core/graph/op_table.h"
#include "core/graph/text.h"
#include "core/graph/text_reader.h"
#include "core/graph/text_words.h"
#include "core/graph/verifier.h"

namespace latentd::graph {
namespace {

constexpr size_t kMaxTextBytes = size_t{16} << 20;
constexpr size_t kMaxOperands = 4096;

enum class Nesting { kGraph, kBody };

absl::StatusOr<Graph> ParseLines(TextReader& reader, Nesting nesting);

// Sets the fields of attributes; remembers the first error.
class FieldParser {
 public:
  FieldParser(TextReader& reader, Nesting nesting) : reader_(reader), nesting_(nesting) {}

  void operator()(absl::string_view name, auto& field) {
    if (status_.ok()) status_ = reader_.Expect(absl::StrCat(name, "="));
    if (status_.ok()) status_ = Parse(field);
  }

  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  static absl::Status Assign(absl::StatusOr<T> value, T& field) {
    RETURN_IF_ERROR(value.status());
    field = *std::move(value);
    return absl::OkStatus();
  }

  absl::Status Parse(int64_t& field) { return Assign(reader_.Number<int64_t>(), field); }
  absl::Status Parse(float& field) { return Assign(reader_.Number<float>(), field); }
  absl::Status Parse(std::string& field) { return Assign(reader_.Quoted(), field); }
  absl::Status Parse(std::vector<int64_t>& field) {
    return Assign(reader_.Numbers<int64_t>(kMaxRank), field);
  }
  absl::Status Parse(std::vector<float>& field) {
    return Assign(reader_.Numbers<float>(kMaxConstantElements), field);
  }
  absl::Status Parse(bool& field) {
    field = reader_.Take("true");
    return field ? absl::OkStatus() : reader_.Expect("false");
  }
  absl::Status Parse(Layout& field) {
    field = reader_.Take(WordFor(Layout::kNhwc)) ? Layout::kNhwc : Layout::kNchw;
    return field == Layout::kNhwc ? absl::OkStatus() : reader_.Expect(WordFor(Layout::kNchw));
  }
  absl::Status Parse(DType& field) { return Assign(device::ParseDType(reader_.Word()), field); }
  absl::Status Parse(Shape& field) {
    ASSIGN_OR_RETURN(std::vector<int64_t> dims, reader_.Numbers<int64_t>(kMaxRank));
    field = Shape(std::move(dims));
    return absl::OkStatus();
  }
  absl::Status Parse(Padding& field) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> sides, reader_.Numbers<int64_t>(4));
    if (sides.size() != 4) return reader_.Expected("four sides before this");
    field = {sides[0], sides[1], sides[2], sides[3]};
    return absl::OkStatus();
  }
  absl::Status Parse(std::shared_ptr<const Graph>& field) {
    if (nesting_ == Nesting::kBody) return reader_.Expected("no fused node inside a body");
    RETURN_IF_ERROR(reader_.Expect("{"));
    ASSIGN_OR_RETURN(Graph body, ParseLines(reader_, Nesting::kBody));
    field = std::make_shared<const Graph>(std::move(body));
    return reader_.Expect("}");
  }

  TextReader& reader_;
  const Nesting nesting_;
  absl::Status status_;
};

absl::StatusOr<const OpRow*> ParseOp(TextReader& reader) {
  static const auto& rows = *[] {
    auto* by_name = new absl::flat_hash_map<absl::string_view, const OpRow*>;
    for (const OpRow& row : OpTable()) by_name->emplace(row.name, &row);
    return by_name;
  }();
  const auto found = rows.find(reader.Word());
  if (found == rows.end()) return reader.Expected("an op's name before this");
  return found->second;
}

absl::StatusOr<Rate> ParseRate(TextReader& reader) {
  RETURN_IF_ERROR(reader.Expect("rate="));
  const auto* found = std::find(std::begin(kRateWords), std::end(kRateWords), reader.Word());
  if (found == std::end(kRateWords)) return reader.Expected("a rate before this");
  return static_cast<Rate>(found - std::begin(kRateWords));
}

// "(%1, %2)", each of them one of the first `count` values.
absl::StatusOr<std::vector<ValueId>> ParseOperands(TextReader& reader, size_t count) {
  std::vector<ValueId> operands;
  RETURN_IF_ERROR(reader.Expect("("));
  do {
    RETURN_IF_ERROR(reader.Expect("%"));
    ASSIGN_OR_RETURN(const ValueId operand, reader.Number<ValueId>());
    if (operand < 0 || static_cast<size_t>(operand) >= count || operands.size() >= kMaxOperands) {
      return reader.Expected("operands that come before the node");
    }
    operands.push_back(operand);
  } while (reader.Take(","));
  RETURN_IF_ERROR(reader.Expect(")"));
  return operands;
}

// Parses the text between the op's name and its attributes.
absl::Status ParseHead(TextReader& reader, absl::Span<const Node> before, Node* node) {
  if (!IsLeaf(node->op)) {
    ASSIGN_OR_RETURN(node->operands, ParseOperands(reader, before.size()));
    node->rate = FastestOperand(*node, before);
  }
  if (node->op == Op::kInput || node->op == Op::kWeight) {
    ASSIGN_OR_RETURN(node->name, reader.Quoted());
  }
  if (node->op == Op::kInput) {
    ASSIGN_OR_RETURN(node->rate, ParseRate(reader));
  }
  return absl::OkStatus();
}

absl::StatusOr<Node> ParseNode(TextReader& reader, absl::Span<const Node> before, Nesting nesting) {
  ASSIGN_OR_RETURN(const size_t id, reader.Number<size_t>());
  if (id != before.size()) return reader.Expected("nodes numbered from 0");
  RETURN_IF_ERROR(reader.Expect("="));
  ASSIGN_OR_RETURN(const OpRow* row, ParseOp(reader));
  Node node{.op = row->op, .attributes = row->attributes()};
  RETURN_IF_ERROR(ParseHead(reader, before, &node));
  FieldParser fields(reader, nesting);
  std::visit([&fields](auto& attributes) { VisitFields(attributes, fields); }, node.attributes);
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(reader.Expect(":"));
  ASSIGN_OR_RETURN(node.dtype, device::ParseDType(reader.Word()));
  ASSIGN_OR_RETURN(std::vector<int64_t> dims, reader.Numbers<int64_t>(kMaxRank));
  node.shape = Shape(std::move(dims));
  return node;
}

absl::StatusOr<Output> ParseOutput(TextReader& reader) {
  Output output;
  ASSIGN_OR_RETURN(output.name, reader.Quoted());
  RETURN_IF_ERROR(reader.Expect("="));
  RETURN_IF_ERROR(reader.Expect("%"));
  ASSIGN_OR_RETURN(output.value, reader.Number<ValueId>());
  return output;
}

absl::StatusOr<Graph> ParseLines(TextReader& reader, Nesting nesting) {
  std::vector<Node> nodes;
  while (reader.Take("%")) {
    ASSIGN_OR_RETURN(Node node, ParseNode(reader, nodes, nesting));
    nodes.push_back(std::move(node));
  }
  std::vector<Output> outputs;
  while (reader.Take("output")) {
    ASSIGN_OR_RETURN(Output output, ParseOutput(reader));
    outputs.push_back(std::move(output));
  }
  return Graph(std::move(nodes), std::move(outputs));
}

// The first line where the texts differ.
int FirstDifference(absl::string_view a, absl::string_view b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return 1 + static_cast<int>(std::count(a.begin(), in_a, '\n'));
}

}  // namespace

absl::StatusOr<Graph> ParseText(absl::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a graph text of ", text.size(), " bytes exceeds ", kMaxTextBytes));
  }
  TextReader reader(text);
  RETURN_IF_ERROR(reader.Expect(kTextHeader));
  ASSIGN_OR_RETURN(Graph graph, ParseLines(reader, Nesting::kGraph));
  if (!reader.AtEnd()) return reader.Expected("a node, an output or the end");
  RETURN_IF_ERROR(Verify(graph));
  if (const std::string printed = ToText(graph); printed != text) {
    return absl::InvalidArgumentError(absl::StrCat(
        "graph text, line ", FirstDifference(text, printed), ": not as it would be printed"));
  }
  return graph;
}

}  // namespace latentd::graph
