#include "core/compiler/graph_key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/text/text.h"
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
  const std::optional<BuildKey> build = BuildKey::FromText(text);
  if (!build.has_value()) return false;
  key.build = *build;
  return true;
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

std::string BuildKey::ToText() const {
  std::string text;
  for (const auto& [name, field] : kBuildFields) {
    absl::StrAppend(&text, name, " ", this->*field, "\n");
  }
  return text;
}

std::optional<BuildKey> BuildKey::FromText(absl::string_view text) {
  BuildKey key;
  for (const auto& [name, field] : kBuildFields) {
    if (!TakeField(text, name, key.*field)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return key;
}

std::string GraphKey::ToText() const {
  if (other_form.has_value()) return *other_form;
  return absl::StrCat("graph ", graph.ToString(), "\n", build.ToText());
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

std::string Difference(const BuildKey& found, const BuildKey& wanted) {
  for (const auto& [name, field] : kBuildFields) {
    if (found.*field == wanted.*field) continue;
    return absl::StrCat(name, " ", Excerpt(found.*field), ", wanted ", wanted.*field);
  }
  return "the same key";
}

std::string Difference(const GraphKey& found, const GraphKey& wanted) {
  if (found.other_form.has_value()) return "a key of another form";
  if (found.graph != wanted.graph) {
    return absl::StrCat("graph ", found.graph.ToString(), ", wanted ", wanted.graph.ToString());
  }
  return Difference(found.build, wanted.build);
}

}  // namespace latentd::compiler
