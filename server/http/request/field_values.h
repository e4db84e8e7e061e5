// Fields of a request by their names in the proto, from JSON: found in its descriptor, so that a
// new field needs nothing here.
//
// Thread-safe: free functions without state.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "nlohmann/json.hpp"

namespace latentd::server::http {

// True of a field of requests of that type themselves: "num_inference_steps".
bool IsField(const google::protobuf::Descriptor& type, absl::string_view name);

// Sets the field, as protobuf's JSON has it, and beside that: null leaves it, texts of numbers and
// booleans are taken for these and texts of JSON for lists and messages (forms have nothing else),
// an enum's value may be its short name ("snap"), files are base64 or data URLs. A value that
// cannot be is a violation. REQUIRES: it is a field of it.
void SetField(absl::string_view name, const nlohmann::json& value,
              google::protobuf::Message& request, std::vector<FieldViolation>& violations);

// Numbers and booleans in JSON or as texts; nothing: it is neither.
std::optional<int64_t> IntegerOf(const nlohmann::json& value);
std::optional<double> NumberOf(const nlohmann::json& value);
std::optional<bool> BooleanOf(const nlohmann::json& value);

// A value in a message: at most 64 bytes of it.
std::string Excerpt(const nlohmann::json& value);

}  // namespace latentd::server::http
