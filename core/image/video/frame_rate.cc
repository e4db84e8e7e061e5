#include "core/image/video/frame_rate.h"

#include <cmath>
#include <utility>

namespace latentd::image {

FrameRate FrameRateOf(double fps) {
  constexpr double kMost = 65535, kNothing = 1e-9;
  double rest = fps;
  double frames = 1, seconds = 0, frames_before = 0, seconds_before = 1;
  while (true) {
    const double whole = std::floor(rest);
    const double next = whole * frames + frames_before;
    if (next > kMost) break;
    seconds_before = std::exchange(seconds, whole * seconds + seconds_before);
    frames_before = std::exchange(frames, next);
    if (rest - whole < kNothing) break;
    rest = 1 / (rest - whole);
  }
  return {static_cast<uint32_t>(frames), static_cast<uint32_t>(seconds)};
}

int64_t StartOf(int64_t frame, FrameRate rate, int64_t ticks) {
  const int64_t frames = rate.frames;
  return (2 * frame * rate.seconds * ticks + frames) / (2 * frames);
}

}  // namespace latentd::image
