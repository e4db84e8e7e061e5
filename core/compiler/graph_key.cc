#include "core/compiler/graph_key.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/compiler/sources_digest.h"
#include "core/graph/text.h"

namespace latentd::compiler {

std::string GraphKey::ToText() const {
  return absl::StrCat("graph ", graph, "\noptions ", options, "\nsources ", sources, "\nbackend ",
                      backend, "\nfingerprint ", fingerprint, "\n");
}

GraphKey KeyOf(const graph::Graph& graph, const backends::Backend& backend,
               const CompileOptions& options) {
  return {graph::GraphDigest(graph).ToString(),
          absl::StrCat("skip=", absl::StrJoin(options.skipped_passes, ",")), kSourcesDigest,
          backend.target().name, backend.Fingerprint()};
}

}  // namespace latentd::compiler
