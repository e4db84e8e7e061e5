// Keys of the web UI's requests whose values change nothing in a picture here, or nothing beside
// what is refused. Their values still have to be of their type, as for the web UI: else a client
// would not learn what it has written wrong.
//
// Thread-safe: a free function without state.
#pragma once

#include <optional>
#include <string>

#include "nlohmann/json.hpp"

namespace latentd::server::http {

// Nothing: it is no such key. Empty: the value is right, and is passed over. Else what is wrong
// with it, which fits behind the key.
std::optional<std::string> JudgeUnread(const std::string& key, const nlohmann::json& value);

}  // namespace latentd::server::http
