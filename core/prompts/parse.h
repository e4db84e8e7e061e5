// Parsing of prompts: what a user writes, in one of the syntaxes that tools have for weights, to
// pieces of text with a weight each.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::prompts {

enum class Syntax : uint8_t {
  kNone,  // the text as it is
  // As stable-diffusion-webui and Forge: (a) 1.1 times, [a] 1/1.1 times, (a:1.2), \( \) \[ \] \\;
  // nested weights multiply, brackets that are open at the end close there, and BREAK, a word of
  // its own, ends the chunk; in brackets too, where the original takes it for text.
  kA1111,
  kComfyUi,  // (a) 1.1 times, (a:1.2), which weights around it do not change, \( \)
  // Compel's basic one: a++ and (a b)+ 1.1 times for each, a- and (a b)- 0.9 times, (a b)1.2,
  // "a b"1.2, \( \) \"; nested weights multiply. A bracket that it cannot read is text, up to the
  // next space.
  kCompel,
};

// "A1111", as people write it.
absl::string_view NameOf(Syntax syntax);

struct Piece {
  std::string text;
  double weight = 1;         // finite
  bool after_break = false;  // begins a chunk

  bool operator==(const Piece&) const = default;
};

// Brackets in brackets, at most.
inline constexpr int kMaxNesting = 100;

// The pieces in their order, at least one; neighbours differ in their weights, but for kComfyUi.
// INVALID_ARGUMENT, as a sentence's end after the field's name: brackets that are nested too deep,
// a weight that is no finite number, and by name what asks for more than weights: prompts that
// change during the run, LoRAs, textual inversions, blends. Takes time in proportion to the text.
absl::StatusOr<std::vector<Piece>> ParsePrompt(absl::string_view text, Syntax syntax);

}  // namespace latentd::prompts
