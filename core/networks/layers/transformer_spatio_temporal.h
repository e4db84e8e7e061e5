// TransformerSpatioTemporalModel: the pixels of each frame attend to each other, then each pixel to
// itself in the other frames, and the share that the checkpoint learned of the latter is taken.
//
// Both attend to one token of the clip besides. Softmax over one key is 1, so what they read of it
// is to_out(to_v(token)), whatever the pixels are: to_q and to_k of attn2, and norm2, change
// nothing and are not read.
#pragma once

#include "core/networks/layers/frames.h"

namespace latentd::networks {

struct TransformerSpatioTemporalOptions {
  int64_t heads = 8;
  int64_t layers = 1;
  int64_t frames = 1;
};

// x [n * frames, c, h, w]; token [n, 1, features]. Values that depend on the token alone keep their
// clips in dimension 0. REQUIRES: heads divides c.
Value TransformerSpatioTemporal(const Scope& scope, Value x, Value token,
                                const TransformerSpatioTemporalOptions& options);

}  // namespace latentd::networks
