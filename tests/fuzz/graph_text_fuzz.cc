// libFuzzer target: any bytes as the text of a graph.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = latentd::graph::ParseText(text);
  // Accepted text must be the one text of its graph.
  if (graph.ok() && latentd::graph::ToText(*graph) != text) std::abort();
  return 0;
}
