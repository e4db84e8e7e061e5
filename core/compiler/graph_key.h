// Names an artifact: everything that decides what compiling a graph gives. Two keys are equal iff
// an artifact made for one is right for the other.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "core/backends/backend.h"
#include "core/base/digest.h"
#include "core/graph/graph.h"
#include "core/passes/pipeline.h"

namespace latentd::compiler {

// What a compilation may be asked to do differently.
struct CompileOptions {
  std::set<std::string> skipped_passes;  // by name; part of the key
  // Folds literals. Not part of the key: an artifact made without it is as right.
  passes::Evaluator evaluate = {};
};

struct GraphKey {
  std::string graph;  // digest of the text of the graph before passes: shapes and dtypes are in it
  std::string options;      // spelled out
  std::string sources;      // digest of the sources that decide what the backend's artifacts hold
  std::string backend;      // "cpu"
  std::string fingerprint;  // instruction set, threads, library versions
  // The text of a key that another build wrote in another form; then all else is empty.
  std::string other_form;

  bool operator==(const GraphKey&) const = default;

  // One "name value" a line.
  std::string ToText() const;
  // Reads exactly what ToText prints.
  static std::optional<GraphKey> FromText(absl::string_view text);
  // The same of what is on disk, where other builds left keys too.
  static GraphKey OfEntry(absl::string_view text);
  Digest ToDigest() const { return DigestOf(ToText()); }
};

GraphKey KeyOf(const graph::Graph& graph, const backends::Backend& backend,
               const CompileOptions& options);
// The same with what is known without the graph: its digest is empty.
GraphKey KeyOf(const backends::Backend& backend, const CompileOptions& options);

// The first field in which a key's text, found somewhere, is another one than `wanted`: "backend
// cpu, wanted reference".
std::string Difference(absl::string_view found, const GraphKey& wanted);

}  // namespace latentd::compiler
