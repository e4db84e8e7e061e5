// The file that a finished picture becomes.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/api/events.h"
#include "core/engine/requests/job.h"
#include "core/image/pixels/run_parts.h"
#include "core/pipeline/picture/run_graph.h"

namespace latentd::engine {

// The most bytes of an encoded picture of `size`, all kinds of container and parameters
// included.
int64_t MaxEncodedBytes(pipeline::Size size, image::Format format);

// In the job's format; a PNG says what made it, where that is asked for. Parts of the work are run
// by `run_parts`.
absl::StatusOr<Image> EncodeImage(const Job& job, int index, uint64_t seed,
                                  const image::Image& pixels, const image::RunParts& run_parts);

// The text of a video's file that says what made it; in the format of a picture's.
std::string VideoParametersOf(const Job& job, uint64_t seed);

// Latents of the host, of what the networks ran at: the picture's part of them as a file.
Image LatentsImage(const Job& job, int index, uint64_t seed, const device::Buffer& latents);

// The embeddings of a request that wants these (EmbedsFile).
absl::StatusOr<Image> EmbedsImage(const Job& job, absl::Span<const pipeline::NamedBuffers> embeds);

}  // namespace latentd::engine
