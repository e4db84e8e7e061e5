// Limits of a request, whatever the checkpoint. Validation refuses the rest by field name;
// GetCapabilities shows it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace latentd::pipeline {

// Models of one server.
inline constexpr int kMaxModels = 33;

inline constexpr int kMinSide = 64;
inline constexpr int kMaxSide = 2048;
inline constexpr int64_t kMaxPixels = int64_t{4} << 20;
inline constexpr int kMinSteps = 1;
inline constexpr int kMaxSteps = 150;
inline constexpr int kMaxEvaluations = 2 * kMaxSteps;  // runs of the UNet: a Heun step has two
inline constexpr double kMaxGuidanceScale = 30;
inline constexpr int kMaxFeatureCacheInterval = 10;
inline constexpr int kMaxImagesPerPrompt = 16;
inline constexpr int kMaxRowsOfPicture = 2;  // rows of an evaluation: with guidance
inline constexpr size_t kMaxPromptBytes = size_t{64} << 10;
inline constexpr int kMaxConditioning = 1 << 16;  // limit of original_size and its like, or below 0
inline constexpr double kMaxAestheticScore = 100;
inline constexpr size_t kMaxAdapters = 8;
inline constexpr double kMaxAdapterWeight = 10;  // or below 0
inline constexpr size_t kMaxControls = 4;
inline constexpr int kMaxMaskBlur = 1024;       // pixels, as the next
inline constexpr int kMaxMaskPadding = 8192;    // an image's largest side
inline constexpr double kMaxControlScale = 10;  // or below 0
inline constexpr size_t kMaxIpAdapters = 4;
inline constexpr size_t kMaxImagesOfIpAdapter = 16;
inline constexpr int kMaxImageTokensOfRequest = 256;  // sum over its IP-Adapters
inline constexpr double kMaxIpAdapterScale = 10;      // or below 0
inline constexpr size_t kMaxBlockScales = 64;         // scales of an adapter; numbers of one

// Videos: the limits of fields that images do not have.
inline constexpr int kMostFramesOfVideo = 128;
inline constexpr int kMostFps = 60;
inline constexpr int kMostMotion = 1023;
inline constexpr double kMostNoise = 10;
// Frames that are decoded together are decoded in parts from so many pixels on: 14 of 1024x576.
inline constexpr int64_t kPixelsDecodedInParts = 8'000'000;

}  // namespace latentd::pipeline
