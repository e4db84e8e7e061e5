// How alike two pictures look.
//
// SSIM is the index of structural similarity of Wang, Bovik, Sheikh and
// Simoncelli (2004).
//
// Around each pixel the means, variances and covariance of the two pictures are taken in a window
// of 11 x 11 pixels that a Gaussian of sigma 1.5 weights; what they give is averaged over pixels,
// and then over the three colours. K1 is 0.01, K2 0.03, and L 255. Only windows that lie whole in
// the picture count: the five pixels at its edges are in windows, and have none.
//
// The same as skimage.metrics.structural_similarity with channel_axis=-1,
// gaussian_weights=True, sigma=1.5, use_sample_covariance=False and data_range=255, which leaves
// the same edges out.
#pragma once

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// The least width and height of pictures whose similarity is known: a window's.
inline constexpr int kLeastSimilaritySide = 11;

// 1 iff they are equal, less the less they are alike; may be below 0. INVALID_ARGUMENT unless both
// have the same size, and at least that many pixels each way. Thread-safe.
absl::StatusOr<double> StructuralSimilarity(const Image& a, const Image& b);

// Peak signal-to-noise ratio in decibels, 10 log10(255^2 / mean squared difference of bytes);
// infinite where they are equal. INVALID_ARGUMENT unless both have the same size. Thread-safe.
absl::StatusOr<double> PeakSignalToNoise(const Image& a, const Image& b);

}  // namespace latentd::image
