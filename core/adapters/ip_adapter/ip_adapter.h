// An IP-Adapter as a file of tensors has it (image_proj.…, ip_adapter.…), with the image encoder
// that it reads. Nothing but names and shapes says what it is.
//
// The bytes come from anywhere: an adapter that does not fit the model, or whose image encoder is
// not there, is refused with what differs.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/networks/config/clip_vision_config.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/networks/ip_adapter.h"
#include "core/weights/archives.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// Tokens that an image becomes, at most.
inline constexpr int64_t kMaxImageTokens = 64;

// A folder of transformers with a CLIPVisionModelWithProjection.
struct ImageEncoderFile {
  std::string path;  // path of its tensors, for messages
  std::string config;
  weights::TensorMap tensors;
  std::string problem = {};  // the reason why it cannot be read; empty: it can be
  std::string stamp = {};    // identity of its files; empty: it is not known
};

// Folders in which the encoder of an adapter may lie, and files of one.
std::vector<std::string> ImageEncoderFolders(const std::string& path, const std::string& root);
std::vector<std::string> ImageEncoderFiles(const std::string& folder);

// Opens DIR/image_encoder, and DIR/models/image_encoder as h94/IP-Adapter has it, of the folder of
// the adapter at `path` and of those above it up to `root`, the nearest first. Those that are not
// there are passed over, and those that cannot be read have a problem, which MakeIpAdapter tells.
// Reads headers and configurations, not data.
std::vector<ImageEncoderFile> OpenImageEncoders(const std::string& path, const std::string& root,
                                                const weights::DigestArchive& digests = {});

struct IpAdapter {
  std::string name, path;
  networks::IpAdapterConfig config;
  weights::TensorMap tensors;  // by the names of core/networks/ip_adapter.h
  networks::ClipVisionConfig encoder;
  weights::TensorMap encoder_tensors;
  std::string encoder_path, encoder_stamp;  // its file's (ImageEncoderFile)
  std::string encoder_config;               // text that `encoder` was read from

  // "base" or "plus".
  absl::string_view variant() const;
  // Shape of what the encoder gives of an image: [features], or [patches, features].
  std::vector<int64_t> image_shape() const;
  // Bytes of an image as the encoder reads it, and of what it gives.
  int64_t image_bytes() const;
};

// The adapter with the first of the encoders that fits it. INVALID_ARGUMENT, which begins with the
// file's path: it is of a kind that is not served, for another UNet than that one, or not all of
// its tensors are those of such an adapter, or no encoder fits.
absl::StatusOr<IpAdapter> MakeIpAdapter(std::string name, const LoraFile& file,
                                        absl::Span<const ImageEncoderFile> encoders,
                                        const networks::Unet2dConditionConfig& unet);

}  // namespace latentd::adapters
