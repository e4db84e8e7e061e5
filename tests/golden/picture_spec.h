// A picture case as the request that latentd gets for it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::golden {

struct PictureRequest : pipeline::PictureSpec {
  pipeline::Inputs inputs;
};

// `pictures` is the folder of the case's init image, and has its mask in a folder masks.
// INVALID_ARGUMENT names a field that is not known or has another type: a case is never run in
// part.
absl::StatusOr<PictureRequest> ReadPictureCase(const nlohmann::json& picture_case,
                                               const std::string& pictures);

}  // namespace latentd::golden
