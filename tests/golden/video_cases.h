// The video cases: whole videos on a synthetic checkpoint, against what diffusers computed.
#pragma once

#include "core/backends/backend.h"
#include "tests/golden/command_line.h"
#include "tests/golden/report.h"

namespace latentd::golden {

// A case passes iff the image's embedding and latents, and the latents after the last step, are
// within this of the largest value in each, and every byte of every frame within 1.
inline constexpr double kVideoTolerance = 1e-4;

// Draws the selected cases of videos.json, of a checkpoint that is written as a folder and read
// from there. In a lesser precision latents and frames lose at most what diffusers' own do
// (losses.h). In each, frames of the decoder in parts are the bytes of it as a whole.
void RunVideoCases(const Options& options, backends::Backend& backend, Report& report);

}  // namespace latentd::golden
