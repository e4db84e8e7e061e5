// Errors as the clients of each API read them.
//
// Thread-safe: free functions without state.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace latentd::server::http {

// A client's own names of fields, by those of the proto: "steps" by "num_inference_steps".
using FieldNames = std::map<std::string, std::string, std::less<>>;

// OpenAI's {"error": {"message", "type", "param", "code"}}, with "latentd" beside them: reason,
// metadata and violations, as google.rpc's details have them. REQUIRES: not OK.
nlohmann::ordered_json OpenAiError(const absl::Status& status, const FieldNames& names = {});

// AUTOMATIC1111's {"error", "detail", "body", "errors"}.
nlohmann::ordered_json SdapiError(const absl::Status& status, const FieldNames& names = {});

// Hugging Face's {"error": "text"}.
nlohmann::ordered_json HuggingFaceError(const absl::Status& status, const FieldNames& names = {});

// JSON as bytes; text in it that is no UTF-8 is replaced.
std::string ToText(const nlohmann::ordered_json& json);

}  // namespace latentd::server::http
