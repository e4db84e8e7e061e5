// libFuzzer target: a byte for the syntax, then any bytes as a prompt.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/prompts/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto syntax = static_cast<latentd::prompts::Syntax>(data[0] % 4);
  const auto pieces = latentd::prompts::ParsePrompt(text, syntax);
  if (!pieces.ok()) return 0;
  if (pieces->empty()) std::abort();
  size_t bytes = 0;
  for (const latentd::prompts::Piece& piece : *pieces) {
    if (!std::isfinite(static_cast<float>(piece.weight))) std::abort();
    bytes += piece.text.size();
  }
  // Compel puts spaces behind commas and between words.
  if (bytes > 4 * text.size()) std::abort();
  return 0;
}
