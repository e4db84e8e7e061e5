// libFuzzer target: any bytes as an artifact, and as the body of one whose checksum is right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/compiler/artifact.h"
#include "core/graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto artifact = latentd::compiler::ParseArtifact(bytes); artifact.ok()) {
    if (latentd::compiler::WriteArtifact(*artifact) != bytes) std::abort();
    latentd::graph::ParseText(artifact->graph).status().IgnoreError();
  }
  const std::string whole = latentd::compiler::WriteArtifact({"key\n", bytes, "plan"});
  const auto artifact = latentd::compiler::ParseArtifact(whole);
  if (!artifact.ok() || artifact->graph != bytes) std::abort();
  latentd::graph::ParseText(artifact->graph).status().IgnoreError();
  return 0;
}
