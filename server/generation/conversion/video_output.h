// How videos are returned, between the proto and the engine.
//
// Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/engine/api/events.h"
#include "core/engine/api/video_file.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::server::generation {

// Adds what is wrong with it, values of enums and the range of its quality aside.
void CheckVideoOutput(const latent::v1::VideoOutput& output,
                      std::vector<FieldViolation>& violations);

// Nothing: each frame becomes a file. REQUIRES: nothing is wrong with `output`, values of enums
// included; else any of them.
std::optional<engine::VideoFile> ToVideoFile(const latent::v1::VideoOutput& output);
// The same back, with every default that the format has; playback_fps unset: the video's fps.
latent::v1::VideoOutput ToVideoOutput(const engine::VideoFile& file);

// A chunk from the byte `offset` of the part on, without its data. REQUIRES: `image` is a part.
latent::v1::VideoChunk ToVideoChunk(const engine::Image& image, int64_t offset);

// Adds the formats that this build writes.
void AddFormats(latent::v1::GetVideoCapabilitiesResponse& proto);

}  // namespace latentd::server::generation
