// Drawing what the prompts of `latent generate` ask for, one after the other.
#pragma once

#include <vector>

#include "client/commands/generate_options.h"
#include "client/output/error_text.h"

namespace latentd::client {

// Writes the pictures; names them on standard output, one a line, or with --json says a line for
// each prompt. Progress and errors go to standard error. Ends at the first prompt that fails, with
// its exit code, or at Ctrl-C.
ExitCode GenerateAll(const GenerateOptions& options, const std::vector<PromptWork>& work);

}  // namespace latentd::client
