// Puts the components of a checkpoint together, from all the paths that it is read from:
//
//   * A file or folder that replaces a component comes first, then `path`'s own, then, of those
//     that `path` lacks, and of vae_tiny, those of `components_from`.
//   * A file says nothing of what has no tensors (heads, scaling factors, vocabularies). For a
//     component of a file, what another configuration says counts where that one's tensors have
//     the same names and shapes: that of `path`, for a component that replaces its own, or that of
//     `components_from`; else what the file was recognised as.
//   * A tokenizer goes with the configuration of its text encoder. The scheduler of
//     `components_from` goes with a file that predicts the same.
//
// Thread-safe: a free function.
#pragma once

#include "absl/status/statusor.h"
#include "core/weights/containers/checkpoint_contents.h"
#include "core/weights/containers/checkpoint_paths.h"

namespace latentd::weights {

// Errors as of Checkpoint::Open. REQUIRES: `reading` has the variant.
absl::StatusOr<CheckpointContents> AssembleCheckpoint(const CheckpointPaths& paths,
                                                      const Reading& reading);

}  // namespace latentd::weights
