// Selects the executables that a request's pictures run, and acquires them.
//
// Thread-safe, but for the request, which is its caller's.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/picture.h"
#include "core/pipeline/picture_spec.h"
#include "core/pipeline/sdxl_model.h"

namespace latentd::pipeline {

// True if the decoder of the model that ends the pictures runs: colours of previews are fitted by
// what it makes of known latents.
bool NeedsDecoderOf(const SdxlModel& last, const PictureSpec& resolved);

// The last model with a tiny VAE, of those that draw the pictures, in order: an ensemble's
// share their latents. Null: none has.
const SdxlModel* WithTinyVae(absl::Span<const SdxlModel* const> models);

// Gives the request, which has its stages, rows and sizes, every executable that its pictures run:
// the first stage's model reads the init image, and the last one's makes the picture. Steps of more
// rows, those of `row_counts` (what Pipeline::RowCountsAt says), where they are ready; a tiny VAE's
// where nothing has to be evicted for it. The graph store's error if one of the others cannot
// be had.
absl::Status Acquire(compiler::Purpose purpose, const PictureSpec& resolved,
                     absl::Span<const int> row_counts, Request& request);

}  // namespace latentd::pipeline
