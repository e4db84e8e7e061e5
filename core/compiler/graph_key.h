// Names an artifact: everything that decides what compiling a graph gives. Two keys are equal iff
// an artifact made for one is right for the other.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "core/backends/backend.h"
#include "core/base/text/digest.h"
#include "core/graph/graph.h"
#include "core/passes/pipeline.h"

namespace latentd::compiler {

// Options of a compilation that differ from the usual.
struct CompileOptions {
  std::set<std::string> skipped_passes;  // by name; part of the key
  // Folds literals. Not part of the key: an artifact made without it is as right.
  passes::Evaluator evaluate = {};
};

// All of a key that does not depend on the graph: which build compiles, and for what.
struct BuildKey {
  std::string options;      // spelled out
  std::string sources;      // digest of the sources that decide what the backend's artifacts hold
  std::string backend;      // "cpu"
  std::string fingerprint;  // instruction set, threads, library versions

  bool operator==(const BuildKey&) const = default;

  // One "name value" a line.
  std::string ToText() const;
  // Reads exactly what ToText prints.
  static std::optional<BuildKey> FromText(absl::string_view text);
};

BuildKey BuildKeyOf(const backends::Backend& backend, const CompileOptions& options);

struct GraphKey {
  Digest graph;  // digest of the graph's text before passes: shapes and dtypes are in it
  BuildKey build;
  // The text of a key that another build wrote in another form; then all else is empty.
  std::optional<std::string> other_form;

  bool operator==(const GraphKey&) const = default;

  // One "name value" a line.
  std::string ToText() const;
  // Reads what ToText prints; any other text is a key of another form.
  static GraphKey FromText(absl::string_view text);
  // Digest of the text: names the graph in listings, and its file.
  Digest ToDigest() const { return DigestOf(ToText()); }
};

GraphKey KeyOf(const graph::Graph& graph, const backends::Backend& backend,
               const CompileOptions& options);

// The first field in which a key that was found somewhere is another one than `wanted`: "backend
// cpu, wanted reference".
std::string Difference(const BuildKey& found, const BuildKey& wanted);
std::string Difference(const GraphKey& found, const GraphKey& wanted);

}  // namespace latentd::compiler
