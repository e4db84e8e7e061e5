// The server speaks of fields, as its API has them; people typed options.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::client {

// The value as it is typed: FORMAT_JPEG is jpeg. Empty: it stands for the default, and is not
// typed.
std::string ChoiceOf(const google::protobuf::EnumValueDescriptor& value);

// All values but the first, which stands for the default.
std::vector<std::string> ChoicesOf(const google::protobuf::EnumDescriptor& type);

// `text` with the names of a request's fields and of enum values as they are typed:
// "num_inference_steps" is --num-inference-steps, "FORMAT_JPEG" is jpeg. Names that are ordinary
// words ("seed", "image") stay. Thread-safe.
std::string WithOptionNames(absl::string_view text);

}  // namespace latentd::client
