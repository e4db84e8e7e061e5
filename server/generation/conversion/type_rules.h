// Checks of a field by its type alone: numbers that are not finite, values that an
// enum does not have, fields that this server does not know.
#pragma once

#include <google/protobuf/message.h>

#include <vector>

#include "core/base/errors/error_details.h"

namespace latentd::server::generation {

// Adds a violation for each such field of a message and of those in it ("output.format"), or for
// those that come first where there are very many.
// Thread-safe; a free function without state.
void CheckTypes(const google::protobuf::Message& message, std::vector<FieldViolation>& violations);

}  // namespace latentd::server::generation
