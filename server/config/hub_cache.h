// Checkpoints that tools of the Hugging Face Hub have downloaded: --base=ORG/NAME names one as
// diffusers' from_pretrained does. Nothing is downloaded.
//
// A cache has models--ORG--NAME/refs/REVISION, which holds a commit, and snapshots/COMMIT, the
// folder itself (huggingface_hub's documentation, "Understand caching").
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::server::config {

// A variable of the environment; null where it is not set.
using GetVariable = std::function<const char*(const char* name)>;

// The first of $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub
// and ~/.cache/huggingface/hub whose variable is set; empty: none is.
std::string HubCacheDirectory(const GetVariable& variable);

// `path`, or where it names nothing and has the form ORG/NAME or ORG/NAME@REVISION, the snapshot of
// that name in `cache`; REVISION is a branch, a tag or a commit, "main" where there is none.
//
// A path that is neither stays as it is: to open it tells what is wrong. NOT_FOUND: the cache has
// no such repository, no such revision, or not all of it; says how to download it.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path, const std::string& cache);

}  // namespace latentd::server::config
