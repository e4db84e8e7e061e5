// The speed of a video as files hold it: a ratio of whole numbers.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>

namespace latentd::image {

// A number of frames in a number of seconds.
struct FrameRate {
  uint32_t frames = 1;
  uint32_t seconds = 1;

  bool operator==(const FrameRate&) const = default;
};

inline constexpr double kMinFps = 1, kMaxFps = 1000;

// The ratio that a continued fraction finds for `fps`, both parts at most 65535, which is what the
// narrowest format holds: 7/1, 30000/1001 for 29.97002997, 2997/100 for 29.97. Differs from `fps`
// by less than a part in 65535. REQUIRES: kMinFps <= fps <= kMaxFps.
FrameRate FrameRateOf(double fps);

// Start of a frame on a clock of `ticks` a second, rounded, so that rounding never adds up: a frame
// lasts until the next one starts. REQUIRES: 0 <= frame <= 2^24; ticks <= 10^6.
int64_t StartOf(int64_t frame, FrameRate rate, int64_t ticks);

}  // namespace latentd::image
