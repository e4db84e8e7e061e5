// Messages as JSON, with the names of the proto.
#pragma once

#include <google/protobuf/message.h>

#include "nlohmann/json.hpp"

namespace latentd::server::http {

// Strings in it that are no UTF-8 are made so. Thread-safe; a free function.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

}  // namespace latentd::server::http
