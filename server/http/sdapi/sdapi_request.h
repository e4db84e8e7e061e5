// Requests of AUTOMATIC1111's web UI: txt2img and img2img.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "latent/v1/image_generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// The answer's form.
struct SdapiForm {
  bool send_images = true;
  nlohmann::json parameters = nlohmann::json::object();  // the request without its pictures
  std::vector<std::string> warnings;                     // for keys that were not read
  std::string prompt;  // as it was sent, where it named LoRAs; else empty
  FieldNames names;    // for errors
};

// Reads the body, an object in JSON. What is not set is that of the offer's defaults, else the
// model's default, and not the web UI's: its numbers suit few checkpoints. What would draw
// something else here than there (a mask, a script, "hires fix") is refused; keys that are not
// known are passed over with a warning, as the web UI does without one. Prompts have the web UI's
// syntax, and name LoRAs (prompt_networks.h), the offer's among them. INVALID_ARGUMENT names every
// field that is wrong; what could be read is in `request` and `form`. Thread-safe; a free function.
absl::Status ReadSdapiRequest(const Request& http, bool image_to_image, const Offer& offer,
                              latent::v1::GenerateRequest& request, SdapiForm& form);

}  // namespace latentd::server::http
