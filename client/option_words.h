// The server speaks of fields, as its API has them; people typed options.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::client {

// `text` with the names of a request's fields and of enum values as they are typed:
// "num_inference_steps" is --num-inference-steps, "FORMAT_JPEG" is jpeg. Names that are ordinary
// words ("seed", "image") stay. Thread-safe.
std::string WithOptionNames(absl::string_view text);

}  // namespace latentd::client
