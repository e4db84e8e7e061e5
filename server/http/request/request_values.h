// The fields of a request as a client of HTTP sends them: an object in JSON or the parts of a form,
// which are texts and files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

struct RequestValues {
  nlohmann::json object = nlohmann::json::object();
  // Files of a form, in their order, by the names of their parts.
  std::vector<std::pair<std::string, std::string>> files;
};

// Reads the body, which is one JSON object or multipart/form-data, whatever JSON's media type is
// said to be. INVALID_ARGUMENT, reason MALFORMED. Thread-safe; a free function.
absl::StatusOr<RequestValues> ReadValues(const Request& request);

}  // namespace latentd::server::http
