#include "core/compiler/graph_key.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"
#include "core/compiler/sources_digest.h"
#include "core/graph/text.h"

namespace latentd::compiler {
namespace {

// In the order of the text.
constexpr std::pair<absl::string_view, std::string GraphKey::*> kFields[] = {
    {"graph", &GraphKey::graph},
    {"options", &GraphKey::options},
    {"sources", &GraphKey::sources},
    {"backend", &GraphKey::backend},
    {"fingerprint", &GraphKey::fingerprint}};

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

// None for a backend that is not below core/backends, such as a test's.
std::string SourcesOf(absl::string_view backend) {
  for (const auto& [name, digest] : kSourcesDigests) {
    if (name == backend) return std::string(digest);
  }
  return "none";
}

}  // namespace

std::string GraphKey::ToText() const {
  if (!other_form.empty()) return other_form;
  std::string text;
  for (const auto& [name, field] : kFields) absl::StrAppend(&text, name, " ", this->*field, "\n");
  return text;
}

GraphKey GraphKey::OfEntry(absl::string_view text) {
  GraphKey other;
  other.other_form = std::string(text);
  return FromText(text).value_or(std::move(other));
}

std::optional<GraphKey> GraphKey::FromText(absl::string_view text) {
  GraphKey key;
  for (const auto& [name, field] : kFields) {
    if (!TakeField(text, name, key.*field)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return key;
}

GraphKey KeyOf(const backends::Backend& backend, const CompileOptions& options) {
  return {"", absl::StrCat("skip=", absl::StrJoin(options.skipped_passes, ",")),
          SourcesOf(backend.target().name), backend.target().name, backend.Fingerprint()};
}

GraphKey KeyOf(const graph::Graph& graph, const backends::Backend& backend,
               const CompileOptions& options) {
  GraphKey key = KeyOf(backend, options);
  key.graph = graph::GraphDigest(graph).ToString();
  return key;
}

std::string Difference(absl::string_view found, const GraphKey& wanted) {
  const std::optional<GraphKey> key = GraphKey::FromText(found);
  if (!key.has_value()) return "a key of another form";
  for (const auto& [name, field] : kFields) {
    if ((*key).*field == wanted.*field) continue;
    return absl::StrCat(name, " ", Excerpt((*key).*field), ", wanted ", wanted.*field);
  }
  return "the same key";
}

}  // namespace latentd::compiler
