// Lists and states that clients of AUTOMATIC1111's web UI ask for before they draw, and while they
// do.
//
// Thread-safe: free functions without state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/api/capabilities.h"
#include "nlohmann/json.hpp"
#include "server/http/calls/http_call.h"
#include "server/http/calls/served_models.h"

namespace latentd::server::http {

// The default model is the one that is chosen; nothing can be.
nlohmann::ordered_json SdapiOptions(const std::vector<ServedModel>& models);
nlohmann::ordered_json SdapiModels(const std::vector<ServedModel>& models);

// By the web UI's names, with all others that the server reads beside them.
nlohmann::ordered_json SdapiSamplers(const engine::Capabilities& capabilities);
nlohmann::ordered_json SdapiSchedulers(const engine::Capabilities& capabilities);

// The oldest of a caller's requests counts; none: all is 0.
nlohmann::ordered_json SdapiProgress(const std::vector<std::shared_ptr<HttpCall>>& calls);

// The LoRAs that prompts may name, by the names that they have here: no path is shown.
nlohmann::ordered_json SdapiLoras(const engine::Capabilities& capabilities);
// The words of textual inversions: "loaded" are those of the default model, "skipped" are for
// others.
nlohmann::ordered_json SdapiEmbeddings(const engine::Capabilities& capabilities);

// Lists of things that this server has none of, by the end of their path; null: it is none of them.
nlohmann::ordered_json SdapiNothing(const std::string& name);

}  // namespace latentd::server::http
