// The prompts of `latent generate` and `latent encode`: words of the command line, or a file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace latentd::client {

// Asks for a prompt where there is none.
inline constexpr char kAskWhatToDraw[] =
    "say what to draw: latent generate \"a red star\" (- reads it from standard input, "
    "--prompt-file FILE from a file)";

struct PromptSource {
  std::vector<std::string> words;    // a prompt each; "-" alone is standard input
  std::string file;                  // "-" is standard input; empty: the words
  bool per_line = false;             // the file has a prompt in each line that is not blank
  bool needed = true;                // else without words and file it is one empty prompt
  std::string ask = kAskWhatToDraw;  // text of the error where it is needed and not there
};

// At least one prompt. What a file has is text in UTF-8, with or without a byte order mark, of at
// most 16 MiB; the newline at its end, and those between lines, are no part of a prompt.
// INVALID_ARGUMENT where there is no prompt, or more than one source of them.
absl::StatusOr<std::vector<std::string>> ReadPrompts(const PromptSource& source);

// True if these are likely to be one prompt whose quotes were left out.
bool LookLikeOne(const std::vector<std::string>& prompts);

}  // namespace latentd::client
