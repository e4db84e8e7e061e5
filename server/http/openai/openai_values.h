// The order in which requests of OpenAI's APIs are read, and values that they have in common.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/http/exchange/exchange.h"
#include "server/http/request/field_builder.h"

namespace latentd::server::http {

// Functions that read a request's parts, each by its name.
struct FieldReaders {
  absl::FunctionRef<void(const std::string& name, std::string bytes)> file;  // a form's
  absl::FunctionRef<absl::Status(const std::string& name)> model;            // "": it names none
  absl::FunctionRef<void(const std::string& name, const nlohmann::json& value)> key;
};

// Calls them for all that the request has: its files, its model, and each other field that is not
// null. Members of "extra_body", an object that users of plain HTTP nest as the clients'
// documentation has it, are read as the request's own where it has no such member.
// INVALID_ARGUMENT: the body cannot be read (ReadValues), or the model is no text; or the error of
// `model`, behind which no key is read.
absl::Status ReadFields(const Request& http, const FieldReaders& read);

// Sets width and height by "1024x768", with any of the signs that clients write; "auto" sets
// neither.
void ReadSize(const nlohmann::json& value, FieldBuilder& builder);

// Calls `take` with the file in base64, "data:...", {"image_url": "data:..."}, {"image_url":
// {"url": "data:..."}}, or with each of a list of these. `name` is the client's.
void ReadPictures(absl::string_view name, const nlohmann::json& value, FieldBuilder& builder,
                  absl::FunctionRef<void(std::string bytes)> take);

}  // namespace latentd::server::http
