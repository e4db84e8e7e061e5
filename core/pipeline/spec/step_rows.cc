#include "core/pipeline/spec/step_rows.h"

#include <algorithm>

#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {

std::vector<int> StepRows::At(Size size) const {
  const int64_t pixels = int64_t{size.width} * size.height * size.frames;
  std::vector<int> at = counts;
  std::erase_if(
      at, [&](int rows) { return rows > kMaxRowsOfPicture && rows * pixels > max_shared_pixels; });
  std::sort(at.begin(), at.end());
  return at;
}

}  // namespace latentd::pipeline
