#include "core/pipeline/tiled_executable.h"

#include <string>

#include "core/base/status_macros.h"
#include "core/pipeline/run_graph.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;

absl::StatusOr<Buffer> RunOnce(backends::Executable& executable, const std::string& input,
                               const Buffer& tile, const std::string& output) {
  ASSIGN_OR_RETURN(const NamedBuffers outputs, RunGraph(executable, {{input, tile}}));
  return outputs.at(output);
}

}  // namespace

absl::StatusOr<Buffer> Decode(const TiledExecutable& decoder, int downscale,
                              const Buffer& latents) {
  return decoder.grid.Join(
      latents, /*scale_in=*/1, /*scale_out=*/downscale, [&](TileShape shape, const Buffer& tile) {
        return RunOnce(*decoder.executables.at(shape), "latents", tile, "image");
      });
}

absl::StatusOr<Buffer> Encode(const TiledExecutable& encoder, int downscale, const Buffer& image) {
  return encoder.grid.Join(
      image, /*scale_in=*/downscale, /*scale_out=*/1, [&](TileShape shape, const Buffer& tile) {
        return RunOnce(*encoder.executables.at(shape), "image", tile, "encoded");
      });
}

}  // namespace latentd::pipeline
