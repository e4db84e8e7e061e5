// Values that requests of OpenAI's APIs have in common.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/http/request/field_builder.h"

namespace latentd::server::http {

// Moves the members of "extra_body", an object that users of plain HTTP nest as the clients'
// documentation has it, into the object itself, where it has no such member.
void MergeExtra(nlohmann::json& object);

// Sets width and height by "1024x768", with any of the signs that clients write; "auto" sets
// neither.
void ReadSize(const nlohmann::json& value, FieldBuilder& builder);

// Sets the image by base64, "data:...", {"image_url": "data:..."}, {"image_url": {"url":
// "data:..."}}, or a list of one of these. `name` is the client's.
void ReadPictures(absl::string_view name, const nlohmann::json& value, FieldBuilder& builder);

}  // namespace latentd::server::http
