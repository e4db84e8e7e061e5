// Videos between the proto and the engine, whose requests and events they share with pictures.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/strings/string_view.h"
#include "core/engine/api/capabilities.h"
#include "latent/v1/video_generation.pb.h"
#include "server/generation/conversion/outgoing_event.h"
#include "server/generation/conversion/request_conversion.h"

namespace latentd::server::generation {

// As ToSpec of a request for pictures. Image and latents are moved out of the request.
ConvertedRequest ToSpec(latent::v1::GenerateVideoRequest request);

// The same event of a video; a chunk of a frame or a file is without its data.
latent::v1::VideoEvent ToVideoEvent(const OutgoingEvent& event);

// All that `caller` can ask for (server/generation/caller.h). `version` is the server's, and is
// filled in by the caller.
latent::v1::GetVideoCapabilitiesResponse ToVideoProto(const engine::Capabilities& capabilities,
                                                      absl::string_view caller);

}  // namespace latentd::server::generation
