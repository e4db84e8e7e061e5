#include "core/compiler/artifact.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/coding.h"
#include "core/cache/entry_file.h"
#include "core/graph/graph_bytes.h"
#include "core/graph/text.h"

namespace latentd::compiler {
namespace {

using backends::Plan;
using backends::WeightNeed;
using graph::Graph;

constexpr absl::string_view kMagic = "latentgr";
constexpr uint32_t kFormat = 4;    // since 4, weights are f32 and labels name their model
constexpr size_t kNeedBytes = 24;  // without its form

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("artifact: ", what));
}

// A payload, not looked into: its graph is a view.
struct Parts {
  PayloadHead head;
  absl::string_view graph;
  Plan plan;
};

void PutNeeds(const Plan& plan, std::string& bytes) {
  PutLittleEndian(bytes, uint64_t{plan.arena_bytes});
  PutLittleEndian(bytes, uint64_t{plan.executable_bytes});
  PutLittleEndian(bytes, static_cast<uint32_t>(plan.weights.size()));
  for (const WeightNeed& need : plan.weights) {
    PutLittleEndian(bytes, static_cast<uint32_t>(need.recipe));
    PutLittleEndian(bytes, static_cast<uint32_t>(need.form.size()));
    PutLittleEndian(bytes, uint64_t{need.bytes});
    PutLittleEndian(bytes, uint64_t{need.scratch_bytes});
    bytes += need.form;
  }
}

void TakeNeeds(LittleEndianReader& reader, Plan& plan) {
  plan.arena_bytes = reader.Take<uint64_t>();
  plan.executable_bytes = reader.Take<uint64_t>();
  plan.weights.resize(reader.TakeCount(kNeedBytes));
  for (WeightNeed& need : plan.weights) {
    need.recipe = static_cast<graph::ValueId>(reader.Take<uint32_t>());
    const auto form_bytes = reader.Take<uint32_t>();
    need.bytes = reader.Take<uint64_t>();
    need.scratch_bytes = reader.Take<uint64_t>();
    need.form = std::string(reader.TakeBytes(form_bytes));
  }
}

absl::StatusOr<Parts> TakeParts(absl::string_view payload) {
  LittleEndianReader reader(payload);
  if (reader.TakeBytes(kMagic.size()) != kMagic) return Damaged("not a compiled graph");
  if (const auto format = reader.Take<uint32_t>(); reader.ok() && format != kFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it was written in format ", format, " of artifacts, and this program reads ", kFormat));
  }
  Parts parts;
  const auto label_bytes = reader.Take<uint32_t>();
  const auto graph_bytes = reader.Take<uint64_t>();
  const auto plan_bytes = reader.Take<uint64_t>();
  parts.head.compile_time = absl::Microseconds(static_cast<int64_t>(reader.Take<uint64_t>()));
  TakeNeeds(reader, parts.plan);
  parts.head.label = GraphLabel::FromText(reader.TakeBytes(label_bytes));
  parts.graph = reader.TakeBytes(graph_bytes);
  parts.plan.bytes = std::string(reader.TakeBytes(plan_bytes));
  if (!reader.done()) return Damaged("its lengths do not add up to its size");
  return parts;
}

// One line for each input and output.
std::string PortsOf(const Graph& graph) {
  std::string text;
  const auto append = [&](absl::string_view what, absl::string_view name, graph::ValueId id) {
    const graph::Node& node = graph.node(id);
    absl::StrAppend(&text, what, " \"", name, "\" ", device::Name(node.dtype),
                    node.shape.ToString(), "\n");
  };
  for (const graph::ValueId id : graph.Select(graph::Op::kInput)) {
    append("input", graph.node(id).name, id);
  }
  for (const graph::Output& output : graph.outputs()) append("output", output.name, output.value);
  return text;
}

}  // namespace

size_t MemoryBytes(const Artifact& artifact) {
  size_t bytes = sizeof(Artifact) + graph::GraphBytes(*artifact.graph) + artifact.plan.bytes.size();
  for (const WeightNeed& need : artifact.plan.weights) bytes += sizeof(need) + need.form.size();
  return bytes;
}

std::string WritePayload(const Artifact& artifact) {
  const std::string label = artifact.label.ToText();
  const std::string graph = graph::ToText(*artifact.graph);
  std::string payload(kMagic);
  PutLittleEndian(payload, kFormat);
  PutLittleEndian(payload, static_cast<uint32_t>(label.size()));
  PutLittleEndian(payload, uint64_t{graph.size()});
  PutLittleEndian(payload, uint64_t{artifact.plan.bytes.size()});
  PutLittleEndian(payload, static_cast<uint64_t>(absl::ToInt64Microseconds(artifact.compile_time)));
  PutNeeds(artifact.plan, payload);
  absl::StrAppend(&payload, label, graph, artifact.plan.bytes);
  return payload;
}

absl::StatusOr<ArtifactPointer> ParsePayload(GraphKey key, absl::string_view payload) {
  ASSIGN_OR_RETURN(Parts parts, TakeParts(payload));
  absl::StatusOr<Graph> graph = graph::ParseText(parts.graph);
  if (!graph.ok()) return Damaged(absl::StrCat("its graph: ", graph.status().message()));
  if (!parts.head.label.has_value()) return Damaged("its label is not one of a graph");
  return std::make_shared<const Artifact>(Artifact{std::move(key), *std::move(parts.head.label),
                                                   std::make_shared<const Graph>(*std::move(graph)),
                                                   std::move(parts.plan), parts.head.compile_time});
}

std::string WriteArtifact(const Artifact& artifact) {
  const std::string payload = WritePayload(artifact);
  return cache::EncodeHead(cache::Kind::kArtifact, artifact.key.ToText(), payload) + payload;
}

absl::StatusOr<ArtifactPointer> ParseArtifact(absl::string_view file) {
  ASSIGN_OR_RETURN(const cache::ParsedEntry entry, cache::ParseEntry(file));
  if (entry.kind != cache::Kind::kArtifact) return Damaged("a cache entry of another kind");
  GraphKey key = GraphKey::FromText(entry.key);
  if (key.other_form.has_value()) {
    return absl::FailedPreconditionError("it was made for a key of another form");
  }
  return ParsePayload(std::move(key), entry.payload);
}

absl::StatusOr<PayloadHead> ParsePayloadHead(absl::string_view payload) {
  ASSIGN_OR_RETURN(Parts parts, TakeParts(payload));
  return std::move(parts.head);
}

absl::Status CheckSamePorts(const Graph& declared, const Graph& optimised) {
  if (PortsOf(declared) != PortsOf(optimised)) {
    return Damaged("its graph has other inputs or outputs than it should");
  }
  absl::flat_hash_set<absl::string_view> weights;
  for (const graph::ValueId id : declared.Select(graph::Op::kWeight)) {
    weights.insert(declared.node(id).name);
  }
  for (const graph::ValueId id : optimised.Select(graph::Op::kWeight)) {
    const std::string& name = optimised.node(id).name;
    if (!weights.contains(name)) return Damaged("its graph reads another weight: " + name);
  }
  return absl::OkStatus();
}

}  // namespace latentd::compiler
