#include "core/compiler/graph_key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"
#include "core/compiler/sources_digest.h"
#include "core/graph/text.h"

namespace latentd::compiler {
namespace {

// In the order of the text, behind the graph's digest.
constexpr std::pair<absl::string_view, std::string BuildKey::*> kBuildFields[] = {
    {"options", &BuildKey::options},
    {"sources", &BuildKey::sources},
    {"backend", &BuildKey::backend},
    {"fingerprint", &BuildKey::fingerprint}};

// Takes "name value\n" off the front.
bool TakeField(absl::string_view& text, absl::string_view name, std::string& value) {
  const size_t end = text.find('\n');
  if (end == absl::string_view::npos) return false;
  absl::string_view line = text.substr(0, end);
  if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, " ")) return false;
  value = std::string(line);
  text.remove_prefix(end + 1);
  return true;
}

bool ReadText(absl::string_view text, GraphKey& key) {
  std::string graph;
  if (!TakeField(text, "graph", graph)) return false;
  const std::optional<Digest> digest = Digest::FromString(graph);
  if (!digest.has_value()) return false;
  key.graph = *digest;
  for (const auto& [name, field] : kBuildFields) {
    if (!TakeField(text, name, key.build.*field)) return false;
  }
  return text.empty();
}

// None for a backend that is not below core/backends, such as a test's.
std::string SourcesOf(absl::string_view backend) {
  for (const auto& [name, digest] : kSourcesDigests) {
    if (name == backend) return std::string(digest);
  }
  return "none";
}

}  // namespace

BuildKey BuildKeyOf(const backends::Backend& backend, const CompileOptions& options) {
  const std::string& name = backend.target().name;
  return {absl::StrCat("skip=", absl::StrJoin(options.skipped_passes, ",")), SourcesOf(name), name,
          backend.Fingerprint()};
}

std::string GraphKey::ToText() const {
  if (other_form.has_value()) return *other_form;
  std::string text = absl::StrCat("graph ", graph.ToString(), "\n");
  for (const auto& [name, field] : kBuildFields) {
    absl::StrAppend(&text, name, " ", build.*field, "\n");
  }
  return text;
}

GraphKey GraphKey::FromText(absl::string_view text) {
  GraphKey key;
  if (ReadText(text, key)) return key;
  GraphKey other;
  other.other_form = std::string(text);
  return other;
}

GraphKey KeyOf(const graph::Graph& graph, const backends::Backend& backend,
               const CompileOptions& options) {
  return {graph::GraphDigest(graph), BuildKeyOf(backend, options), std::nullopt};
}

std::string Difference(const GraphKey& found, const GraphKey& wanted) {
  if (found.other_form.has_value()) return "a key of another form";
  if (found.graph != wanted.graph) {
    return absl::StrCat("graph ", found.graph.ToString(), ", wanted ", wanted.graph.ToString());
  }
  for (const auto& [name, field] : kBuildFields) {
    if (found.build.*field == wanted.build.*field) continue;
    return absl::StrCat(name, " ", Excerpt(found.build.*field), ", wanted ", wanted.build.*field);
  }
  return "the same key";
}

}  // namespace latentd::compiler
