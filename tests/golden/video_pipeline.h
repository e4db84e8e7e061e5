// Draws videos as a server does: by a Pipeline, unit after unit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/compiler/graph_store.h"
#include "core/image/pixels/pixels.h"
#include "core/metrics/registry.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/spec/request/video_spec.h"
#include "core/weights/weight_store.h"
#include "tests/golden/command_line.h"
#include "tests/golden/draw_video.h"

namespace latentd::golden {

class VideoPipeline {
 public:
  // Loads the checkpoint in `folder`; its decoder runs whole, or in parts where it can. `backend`
  // must outlive the result.
  enum class Decoder : uint8_t { kWhole, kInParts };
  static absl::StatusOr<std::unique_ptr<VideoPipeline>> Load(const std::string& folder,
                                                             const Options& options,
                                                             Decoder decoder,
                                                             backends::Backend& backend);

  // The frames of the video of an encoded image. The extras' steps that are not guided have one
  // row.
  absl::StatusOr<std::vector<image::Image>> Draw(const pipeline::VideoSpec& spec,
                                                 const VideoExtras& extras,
                                                 const std::string& image);

 private:
  VideoPipeline(const Options& options, backends::Backend& backend);

  weights::WeightStore weights_;
  metrics::Registry registry_;
  compiler::GraphStore graphs_;
  std::unique_ptr<const pipeline::Pipeline> pipeline_;
};

}  // namespace latentd::golden
