// Tensors of older files under the names and shapes that networks ask for.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/strings/string_view.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// `class_name` is that of the component that the tensors are of: "AutoencoderKL".
//
//   CLIPText...  all but the projection under "text_model.", which transformers writes or leaves
//   out others       attention of VAEs of the SD 1.5 age (query, key, value, proj_attn) as to_q,
//   to_k,
//                to_v and to_out.0; its weights are [a, b] where they are stored as convolutions,
//                [a, b, 1, 1]
//
// A tensor that has today's name already stays before one that would get it.
TensorMap UnderTodaysNames(TensorMap tensors, absl::string_view class_name);

}  // namespace latentd::weights
