// Draws one video from an image without an engine, from the first network to the last, as
// diffusers' StableVideoDiffusionPipeline does it: each run of a graph can be seen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/families/svd/video_configs.h"
#include "core/families/svd/video_spec.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/image/pixels/pixels.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::golden {

using families::svd::VideoConfigs;
using families::svd::VideoSpec;

// Inputs or outputs of a graph by name, in memory of the host.
using VideoBuffers = std::map<std::string, device::ConstBuffer>;

// Runs a graph once.
using RunGraph = std::function<absl::StatusOr<VideoBuffers>(const VideoBuffers& inputs)>;
// Makes a graph of the checkpoint's weights ready to be run in a precision, as often as is wanted.
using LoadGraph = std::function<absl::StatusOr<RunGraph>(const graph::Graph& graph,
                                                         const graph::Precision& precision)>;

// Settings of a case that are no part of its spec: the part of its steps that is guided, and the
// seed of latents of its own.
struct VideoExtras {
  pipeline::GuidanceInterval guided;
  std::optional<uint64_t> latents_seed;
};

// Latents of those extras, as a safetensors file; empty: there are none. REQUIRES: the spec says
// how many frames.
std::string LatentsFileOf(const VideoSpec& spec, const VideoExtras& extras);

struct Video {
  device::ConstBuffer image_embeds;   // [1, features]
  device::ConstBuffer image_latents;  // [1, channels * h * w], not scaled
  device::Buffer latents;             // [frames, channels, h, w] after the last step
  std::vector<image::Image> frames;
};

// Random numbers come from one generator with the spec's seed: first those on the image,
// [1, 3, height, width], which are drawn even where there are none of them; then those of the
// latents, [1, frames, channels, h, w]; then those of steps that draw any. Frames are decoded
// decode_chunk_size at a time, each chunk alone; the last may be shorter. Networks compute in
// `dtype`, but for ImageLatentsDType's.
//
// With latents of its own the generator draws none. A step that is not guided has the image's
// output in both rows.
//
// INVALID_ARGUMENT: the spec, by its fields, or the image. INTERNAL: values that are not finite.
absl::StatusOr<Video> DrawVideo(const VideoConfigs& configs, const VideoSpec& spec,
                                const image::Image& image, device::DType dtype,
                                const LoadGraph& load, const VideoExtras& extras = {});

}  // namespace latentd::golden
