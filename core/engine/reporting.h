// What the engine tells about itself and its requests, as pure functions of what it holds.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"
#include "core/engine/job.h"
#include "core/pipeline/pipeline.h"

namespace latentd::engine {

// The stage that the picture's next unit belongs to.
Stage StageOf(const pipeline::Picture& picture);
void AddTime(Timings& timings, Stage stage, absl::Duration duration);

Capabilities CapabilitiesOf(const pipeline::Pipeline& pipeline, const Config& config,
                            std::vector<ServerStatus::Bucket> buckets);

// REQUIRES: all pictures are finished.
Completed CompletionOf(const Job& job);

// What an encoded picture of `size` can have at most, all kinds of container and parameters
// included.
int64_t MaxEncodedBytes(pipeline::Size size, image::Format format);

absl::StatusOr<Image> EncodeImage(const Job& job, int index, uint64_t seed,
                                  const image::Image& pixels);

}  // namespace latentd::engine
