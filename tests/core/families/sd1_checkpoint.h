// A small checkpoint of Stable Diffusion 1 with the demo's first text encoder and VAE.
#pragma once

#include <string>

#include "tests/core/pipeline/doctored_checkpoint.h"

namespace latentd::testing {

// Makes the directory `path` one: a StableDiffusionPipeline whose UNet has seeded weights; all else
// is of `demo`, a checkpoint like the demo's base. A failure ends the test program.
void MakeSd1Checkpoint(const std::string& path, const std::string& demo = kDemoBase);

// The same, of a latent consistency model: its UNet is told the guidance scale.
void MakeLcmCheckpoint(const std::string& path);

}  // namespace latentd::testing
