// The picture cases: whole pipelines on a checkpoint, against what diffusers drew.
#pragma once

#include "core/backends/backend.h"
#include "tests/golden/command_line.h"
#include "tests/golden/report.h"

namespace latentd::golden {

// A case passes iff its text states are within this of their largest value, ...
inline constexpr double kTextTolerance = 1e-4;
// ... its latents (after the last step, and those that the base hands over) are this near, ...
inline constexpr double kLatentTolerance = 5e-4;
// ... and so are all its pixels, in steps of 1/255.
inline constexpr double kPixelTolerance = 1;

// In a lesser precision it passes iff its pictures are like diffusers' in float32 (likeness.h), and
// its latents and the mean of its pixels' differences have not lost much more than diffusers' in
// that precision, where that is known (losses.h). With all cases of a run, the median of all their
// pictures counts as one more.

// Runs the selected cases of pictures.json on the checkpoint's base and, if there is one, its
// refiner.
void RunPictureCases(const Options& options, backends::Backend& backend, Report& report);

}  // namespace latentd::golden
