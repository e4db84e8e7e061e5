// Tells files that people give for safetensors files by their first bytes: pickles, GGUF, what a
// download left that did not happen. The extension of a name says nothing: safetensors files are
// called .ckpt, and pickles .safetensors.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::weights {

// "a Git LFS pointer to a file of 9 bytes: ...": the container that the bytes of a file begin like,
// and what to do; empty for what begins like a safetensors file, or like nothing that is known.
// `path` is for messages.
std::string DescribeContainer(absl::string_view bytes, absl::string_view path);

}  // namespace latentd::weights
