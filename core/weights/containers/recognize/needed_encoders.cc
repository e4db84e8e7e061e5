#include "core/weights/containers/recognize/needed_encoders.h"

#include "core/weights/containers/recognize/refuse_file.h"

namespace latentd::weights {
namespace {

// Features of the encoder at these places; 0: there is none.
int64_t WidthAt(const std::vector<FoundEncoder>& encoders,
                const std::vector<EncoderPlace>& places) {
  const FoundEncoder* encoder = FindEncoder(encoders, places);
  return encoder == nullptr ? 0 : encoder->width;
}

}  // namespace

absl::StatusOr<FileFamily> FamilyOf(const std::string& path, const UnetArchitecture& unet,
                                    const std::vector<FoundEncoder>& encoders) {
  const int64_t text = unet.cross_attention_dim, added = unet.added_features;
  if (text == 768 && added == 0) return FileFamily::kSd1;
  if (text == 1024 && added == 0) return FileFamily::kSd2;
  if (text == 2048 && added == 2816) return FileFamily::kXlBase;
  if (text == 1280 && added == 2560) return FileFamily::kXlRefiner;
  const int64_t first = WidthAt(encoders, {EncoderPlace::kFirst});
  const int64_t open = WidthAt(encoders, {EncoderPlace::kOpenClip});
  const int64_t second = WidthAt(encoders, {EncoderPlace::kOpenClip, EncoderPlace::kSecond});
  if (added == 0 && first == text) return FileFamily::kSd1;
  if (added == 0 && open == text) return FileFamily::kSd2;
  if (added > 0 && first > 0 && second > 0 && first + second == text) return FileFamily::kXlBase;
  if (added > 0 && second == text) return FileFamily::kXlRefiner;
  return RefuseFile(
      path, ": its UNet reads ", text, " features of text and ", added,
      " added ones, which is none of the families that are served: Stable Diffusion 1 "
      "(768 and 0), 2 (1024 and 0), XL base (2048 and 2816) and XL refiner (1280 and "
      "2560)");
}

std::vector<NeededEncoder> NeededEncoders(FileFamily family) {
  using enum EncoderPlace;
  const std::string end = "<|endoftext|>";
  const EncoderRole clip_l = {.component = "text_encoder", .title = "CLIP-L"};
  const EncoderRole h = {.component = "text_encoder",
                         .title = "OpenCLIP H",
                         .is_gelu = true,
                         .is_projected = false,
                         .leaves_out_last = true};
  const EncoderRole g = {.component = "text_encoder_2",
                         .title = "OpenCLIP bigG",
                         .is_gelu = true,
                         .is_projected = true};
  switch (family) {
    case FileFamily::kSd1:
      return {{clip_l, {kFirst}, "tokenizer", end}};
    case FileFamily::kSd2:
      return {{h, {kOpenClip, kFirst}, "tokenizer", "!"}};
    case FileFamily::kXlBase:
      return {{clip_l, {kFirst}, "tokenizer", end}, {g, {kOpenClip, kSecond}, "tokenizer_2", "!"}};
    case FileFamily::kXlRefiner:
      return {{g, {kOpenClip, kSecond, kFirst}, "tokenizer_2", "!"}};
  }
  return {};
}

const FoundEncoder* FindEncoder(const std::vector<FoundEncoder>& encoders,
                                const std::vector<EncoderPlace>& places) {
  for (const EncoderPlace place : places) {
    for (const FoundEncoder& encoder : encoders) {
      if (encoder.place == place) return &encoder;
    }
  }
  return nullptr;
}

}  // namespace latentd::weights
