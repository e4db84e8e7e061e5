// Requests of OpenAI's Images API: generations, edits and variations.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "latent/v1/image_generation.pb.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

enum class ImagesRoute { kGenerations, kEdits, kVariations };

// The answer's form.
struct ImagesForm {
  bool stream = false;
  int partial_images = 0;  // for each picture
  // latentd's own events beside OpenAI's: the place in the queue, steps, and all previews.
  bool own_events = false;
  bool as_url = false;  // data URLs instead of base64
  std::string format = "png";
  std::string quality = "auto";
  FieldNames names;  // for errors
};

// Reads the body. Every field of GenerateRequest may be given by its own name beside OpenAI's; null
// is not set; a field that is not set is that of the offer's defaults. Beside what OpenAI has as
// defaults, a size that is no bucket is cut out of a larger one (SNAP). INVALID_ARGUMENT names
// every field that is wrong, by the name that it was given; what could be read is in `request` and
// `form`. Thread-safe; a free function.
absl::Status ReadImagesRequest(const Request& http, ImagesRoute route, const Offer& offer,
                               latent::v1::GenerateRequest& request, ImagesForm& form);

}  // namespace latentd::server::http
