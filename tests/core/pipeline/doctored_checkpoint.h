// Checkpoints that differ from the demo's in one number.
#pragma once

#include <string>

#include "tests/support/source_directory.h"

namespace latentd::testing {

inline const std::string kDemoBase = ::latentd::testing::SourcePath("deploy/demo-model/base");
inline const std::string kDemoRefiner = ::latentd::testing::SourcePath("deploy/demo-model/refiner");

// Makes the directory `path` a checkpoint like the demo's base, in which the first element of a
// tensor is another: ("unet", "conv_out.bias"). A failure ends the test program.
void MakeDoctoredCheckpoint(const std::string& path, const std::string& component,
                            const std::string& tensor, float value);

}  // namespace latentd::testing
