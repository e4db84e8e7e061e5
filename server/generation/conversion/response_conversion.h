// From what the engine says to the proto.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "core/engine/api/capabilities.h"
#include "core/engine/api/events.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

// Thread-safe; free functions without state.
latent::v1::Queued ToProto(const engine::Queued& queued);
latent::v1::Started ToProto(const engine::Started& started);
latent::v1::Progress ToProto(const engine::Progress& progress);
latent::v1::Preview ToProto(engine::Preview preview);

latent::v1::Stage ToProto(engine::Stage stage);
latent::v1::Residency ToProto(pipeline::Residency residency);

// `output` is the request's: the engine's answer names the picture only.
latent::v1::Completed ToProto(const engine::Completed& completed,
                              const image::EncodeOptions& output);

// The chunk that starts at `offset`, without its data.
latent::v1::ImageChunk ToChunk(const engine::Image& image, size_t offset);

// All that `caller` can ask for (server/generation/caller.h). `capabilities.version` is the
// server's, and is filled in by the caller.
latent::v1::GetCapabilitiesResponse ToProto(const engine::Capabilities& capabilities,
                                            absl::string_view caller);

}  // namespace latentd::server::generation
