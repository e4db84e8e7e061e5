// Checkpoints that differ from the demo's in one number or word, or in a dtype.
#pragma once

#include <string>
#include <vector>

#include "core/device/dtype.h"
#include "tests/support/source_directory.h"

namespace latentd::testing {

inline const std::string kDemoBase = ::latentd::testing::SourcePath("deploy/demo-model/base");
inline const std::string kDemoRefiner = ::latentd::testing::SourcePath("deploy/demo-model/refiner");

// Makes the directory `path` a checkpoint like the demo's base, in which the first element of a
// tensor is another: ("unet", "conv_out.bias"). A failure ends the test program.
void MakeDoctoredCheckpoint(const std::string& path, const std::string& component,
                            const std::string& tensor, float value);

// The same with every element of each of these tensors another.
void MakeFilledCheckpoint(const std::string& path, const std::string& component,
                          const std::vector<std::string>& tensors, float value);

// Makes the directory `path` a checkpoint like `original` in which one field of a JSON file
// ("model_index.json", "unet/config.json") is another: `value` is JSON, or empty to take the field
// out.
void MakeEditedCheckpoint(const std::string& path, const std::string& original,
                          const std::string& file, const std::string& field,
                          const std::string& value);

// Makes the directory `path` a checkpoint like `original` whose tensors are stored in `dtype`.
void MakeCheckpointStoredIn(const std::string& path, const std::string& original,
                            device::DType dtype);

// Makes the directory `path` a checkpoint like `original` that has a tiny VAE besides, of a few
// thousand seeded weights in float32. Each of them is `scale` times as large as it would be for
// pixels that are neither all alike nor all black or white.
void MakeCheckpointWithTinyVae(const std::string& path, const std::string& original,
                               float scale = 1);

}  // namespace latentd::testing
