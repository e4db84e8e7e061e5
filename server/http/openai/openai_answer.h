// Answers of OpenAI's Images API.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/http/calls/drawn.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/answer_body.h"
#include "server/http/openai/openai_request.h"

namespace latentd::server::http {

// The answer without a stream; a `format` other than the pictures' is of no matter.
AnswerBody ImagesAnswer(const Drawn& drawn, const ImagesForm& form);

// The numbers of tokens, which OpenAI's types require; nothing is counted.
nlohmann::ordered_json Usage();

// {"request_id", "executed_size", "timings", "parameters", "warnings"}
nlohmann::ordered_json Details(const std::string& request_id,
                               const latent::v1::Completed& completed);

// Adds `json`, an object, without its last brace, so that a picture can follow as its last members.
// REQUIRES: it is not empty.
void AddOpen(const nlohmann::ordered_json& json, AnswerBody& body);

nlohmann::ordered_json ModelList(const std::vector<ServedModel>& models);
nlohmann::ordered_json ModelEntry(const ServedModel& model);

}  // namespace latentd::server::http
