#include "core/graph/text.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "core/graph/attribute_fields.h"
#include "core/graph/op_table.h"
#include "core/graph/text_words.h"

namespace latentd::graph {
namespace {

std::string Shortest(float value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

class Printer {
 public:
  Printer(std::string* out, int indent) : out_(*out), indent_(indent) {}

  void PrintGraph(const Graph& graph) {
    for (ValueId id = 0; id < graph.size(); ++id) PrintNode(id, graph.node(id));
    for (const Output& output : graph.outputs()) {
      absl::StrAppend(&out_, Indent(), "output \"", output.name, "\" = %", output.value, "\n");
    }
  }

  // The fields of attributes.
  void operator()(absl::string_view name, const auto& value) {
    absl::StrAppend(&out_, " ", name, "=");
    Print(value);
  }

 private:
  void PrintNode(ValueId id, const Node& node) {
    absl::StrAppend(&out_, Indent(), "%", id, " = ", RowOf(node.op).name);
    if (!IsLeaf(node.op)) PrintOperands(node.operands);
    if (!node.name.empty()) absl::StrAppend(&out_, " \"", node.name, "\"");
    if (node.op == Op::kInput) absl::StrAppend(&out_, " rate=", WordFor(node.rate));
    Attributes attributes = node.attributes;
    std::visit([this](auto& fields) { VisitFields(fields, *this); }, attributes);
    absl::StrAppend(&out_, " : ", ToString(ValueType{node.dtype, node.shape}), "\n");
  }

  void PrintOperands(absl::Span<const ValueId> operands) {
    const char* separator = "(%";
    for (ValueId operand : operands) {
      absl::StrAppend(&out_, separator, operand);
      separator = ", %";
    }
    out_ += ')';
  }

  void Print(int64_t value) { absl::StrAppend(&out_, value); }
  void Print(float value) { out_ += Shortest(value); }
  void Print(bool value) { out_ += value ? "true" : "false"; }
  void Print(Layout value) { absl::StrAppend(&out_, WordFor(value)); }
  void Print(DType value) { absl::StrAppend(&out_, device::Name(value)); }
  void Print(const std::string& value) { absl::StrAppend(&out_, "\"", value, "\""); }
  void Print(const Shape& value) { Print(value.dims()); }
  void Print(const Padding& value) {
    Print(std::vector<int64_t>{value.top, value.left, value.bottom, value.right});
  }
  template <typename T>
  void Print(const std::vector<T>& values) {
    out_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ',';
      Print(values[i]);
    }
    out_ += ']';
  }
  void Print(const std::shared_ptr<const Graph>& body) {
    out_ += "{\n";
    if (body != nullptr) Printer(&out_, indent_ + 2).PrintGraph(*body);
    absl::StrAppend(&out_, Indent(), "}");
  }

  std::string Indent() const { return std::string(indent_, ' '); }

  std::string& out_;
  const int indent_;
};

}  // namespace

std::string ToText(const Graph& graph) {
  std::string text(kTextHeader);
  Printer(&text, 0).PrintGraph(graph);
  return text;
}

Digest GraphDigest(const Graph& graph) { return DigestOf(ToText(graph)); }

}  // namespace latentd::graph
