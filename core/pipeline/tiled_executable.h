// One direction of the autoencoder at one size: what runs each shape of its tiles (tiles.h).
#pragma once

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "core/backends/executable.h"
#include "core/device/buffer.h"
#include "core/pipeline/tiles.h"

namespace latentd::pipeline {

struct TiledExecutable {
  TileGrid grid;
  std::map<TileShape, std::shared_ptr<backends::Executable>> executables;  // of all its shapes
};

// f32 [1, C, h, w] latents of the UNet -> f32 [1, 3, H, W]. `downscale` is the autoencoder's.
absl::StatusOr<device::Buffer> Decode(const TiledExecutable& decoder, int downscale,
                                      const device::Buffer& latents);

// f32 [1, 3, H, W] -> what MakeEncodeGraph (vae_graph.h) calls "encoded".
absl::StatusOr<device::Buffer> Encode(const TiledExecutable& encoder, int downscale,
                                      const device::Buffer& image);

}  // namespace latentd::pipeline
