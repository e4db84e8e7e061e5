// The fields of config.json that a class of diffusers or transformers has and its network here does
// not read: in one place for each class, so that what changes a picture is told from what does not.
//
// A field that is in no list, and that no network reads, is one that the reference libraries do not
// read either: it is passed over with a warning (ConfigReader::unknown_fields).
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::networks {

struct UnreadFields {
  // They change what is computed unless they are null, false or empty; any other value is refused.
  absl::Span<const absl::string_view> must_be_off;
  // They change nothing, whatever they say: about training, about classes and block types that are
  // refused by themselves, or left from how the weights were made.
  absl::Span<const absl::string_view> harmless;
};

extern const UnreadFields kUnreadByUnet2dCondition;
extern const UnreadFields kUnreadByAutoencoderKl;
extern const UnreadFields kUnreadByAutoencoderTiny;
extern const UnreadFields kUnreadByClipText;
extern const UnreadFields kUnreadByClipVision;
extern const UnreadFields kUnreadByUnetSpatioTemporal;
extern const UnreadFields kUnreadByAutoencoderTemporal;

}  // namespace latentd::networks
