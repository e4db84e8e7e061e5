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
};

}  // namespace latentd::engine
