// Embeddings that a request brings in the place of an IP-Adapter's images: what the image encoder
// gives of them, as diffusers' prepare_ip_adapter_image_embeds has it. [1, n, ...] are n images of
// the prompt, [2, n, ...] the same behind those of the negative prompt.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/spec/request/image_prompt.h"
#include "core/pipeline/spec/request/inputs.h"

namespace latentd::pipeline {

struct ImageEmbedsLayout {
  int sides = 1;  // 2: those of the negative prompt come first
  int images = 1;
};

// INVALID_ARGUMENT names the field and the shape that fits: the tensor has another one, other bytes
// than that, or numbers that are not finite. Dimensions of 1 at the beginning may be left out.
// REQUIRES: `prompt` is resolved as far as its image_shape.
absl::StatusOr<ImageEmbedsLayout> CheckImageEmbeds(const std::string& field,
                                                   const ImagePrompt& prompt,
                                                   const HostTensor& tensor);

// Sets what rows of the prompt read, or with `negative` those of the negative prompt; false: the
// tensor has none of these. `values` are those of all images. REQUIRES: CheckImageEmbeds is OK.
bool ReadImageEmbeds(const HostTensor& tensor, bool negative, absl::Span<float> values);

}  // namespace latentd::pipeline
