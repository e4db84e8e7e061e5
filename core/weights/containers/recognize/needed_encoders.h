// The family of a checkpoint, and the text encoders that it needs.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/file_family.h"
#include "core/weights/containers/recognize/text_encoder_part.h"
#include "core/weights/containers/recognize/unet_part.h"

namespace latentd::weights {

// By the features of the conditions that the UNet reads; where these are no published ones, by the
// text encoders that make them. INVALID_ARGUMENT, beginning with `path`: they are no family's.
absl::StatusOr<FileFamily> FamilyOf(const std::string& path, const UnetArchitecture& unet,
                                    const std::vector<FoundEncoder>& encoders);

// An encoder that a family needs, and the places at which a file may have it.
struct NeededEncoder {
  EncoderRole role;
  std::vector<EncoderPlace> places;
  std::string tokenizer;
  std::string pad_token;
};

std::vector<NeededEncoder> NeededEncoders(FileFamily family);

// The first encoder at the first of these places that has any; null: there is none.
const FoundEncoder* FindEncoder(const std::vector<FoundEncoder>& encoders,
                                const std::vector<EncoderPlace>& places);

}  // namespace latentd::weights
