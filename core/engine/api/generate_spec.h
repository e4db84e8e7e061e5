// One generation request as plain data: what server/ makes of the proto and pipeline/ makes
// pictures of. An absent optional takes diffusers' default; the response says what was really used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/engine/api/video_file.h"
#include "core/image/format.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

struct GenerateSpec {
  std::string request_id;  // for correlation; comes back in Queued
  pipeline::PictureSpec picture;
  pipeline::SharedInputs inputs = nullptr;  // null: none
  image::EncodeOptions output;
  std::optional<VideoFile> video_file = std::nullopt;  // nothing: a file of each frame
  // Bytes that the encoded pictures may have together; refused is what could have more. 0: any.
  int64_t max_response_bytes = 0;

  // Caller by all of its names with commas between them; requests of one caller share its part
  // of the device.
  std::string caller = {};
  // Each more counts as double, of the device's time and in the order: kMinPriority to
  // what the configuration's priorities allow the caller.
  int priority = 0;
  // When the answer is no use any more, of the clock's monotonic time.
  absl::Time deadline = absl::InfiniteFuture();
};

}  // namespace latentd::engine
