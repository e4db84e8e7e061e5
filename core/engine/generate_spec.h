// One generation request as plain data: what server/ makes of the proto and pipeline/ makes
// pictures of. An absent optional takes diffusers' default; the response says what was really used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/image/format.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

struct GenerateSpec {
  std::string request_id;  // for correlation; comes back in Queued
  pipeline::PictureSpec picture;
  image::EncodeOptions output;
  // Bytes that the encoded pictures may have together; refused is what could have more. 0: any.
  int64_t max_response_bytes = 0;
};

}  // namespace latentd::engine
