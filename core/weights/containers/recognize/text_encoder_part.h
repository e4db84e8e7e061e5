// The text encoders of a file: CLIP by the names of transformers, or by those of OpenCLIP, whose
// fused projections are split and whose last one is transposed by Sources.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// The kind of a text encoder by its place in a file. OpenCLIP's is known by its names: H or bigG.
enum class EncoderPlace : uint8_t { kFirst, kSecond, kOpenClip };

struct FoundEncoder {
  EncoderPlace place = EncoderPlace::kFirst;
  std::string prefix;
  int64_t width = 0;  // features of a token; 0 where that cannot be read
};

// All that are in the file, in the order in which a network looks for its own.
std::vector<FoundEncoder> FindEncoders(const TensorMap& tensors);

// Settings of a text encoder that no tensor tells.
struct EncoderRole {
  std::string component;         // "text_encoder_2"
  std::string title;             // for messages: "CLIP-L"
  bool is_gelu = false;          // else quick_gelu
  bool is_projected = false;     // CLIPTextModelWithProjection
  bool leaves_out_last = false;  // the last of 24 layers is not used
};

struct EncoderPart {
  absl::StatusOr<std::string> config;  // config.json; an error where its heads are not known
  SourceMap sources;
  int64_t pooled_features = 0;
};

// True if a projection is there, which the second encoder of SDXL cannot do without.
bool HasProjection(const TensorMap& tensors, const FoundEncoder& encoder);

// INVALID_ARGUMENT, beginning with `path`, names the tensors that are missing, misshapen or left
// over.
absl::StatusOr<EncoderPart> ReadEncoder(const std::string& path, const TensorMap& tensors,
                                        const FoundEncoder& encoder, const EncoderRole& role);

}  // namespace latentd::weights
