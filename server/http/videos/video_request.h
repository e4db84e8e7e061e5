// Requests of OpenAI's videos API, in the form that peers kept: one video of an image.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "latent/v1/video_generation.pb.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Parts of its request that a job's answers repeat.
struct VideoForm {
  std::string model;    // the id
  std::string prompt;   // draws nothing: the model reads none
  std::string size;     // "1024x576"
  std::string seconds;  // "3.57"
  FieldNames names;     // for errors
};

// Reads the body. Every field of GenerateVideoRequest may be given by its own name beside OpenAI's;
// null is not set. The answer is a file, animated WebP unless the request says otherwise.
// INVALID_ARGUMENT names every field that is wrong, by the name that it was given; what could be
// read is in `request` and `form`. `models` are those that draw videos. Thread-safe; a free
// function.
absl::Status ReadVideoRequest(const Request& http, const std::vector<ServedModel>& models,
                              latent::v1::GenerateVideoRequest& request, VideoForm& form);

}  // namespace latentd::server::http
