// Plans of cuDNN for images. It may count the elements of a tensor in 32 bits: of more than that, a
// plan takes some images at a time.
//
// Internal to this directory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/backends/cuda/binders/binders.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {

// A plan, and the images of an operand that it takes.
struct ImagePlan {
  std::shared_ptr<const CudnnPlan> plan;
  int64_t first_row = 0;
};

// Images of which a plan takes all, or parts of nearly equal size: fewer than 2^31 elements each,
// where a single one has no more. `row_elements`: of an image or of its result, the larger one.
inline int64_t RowsOfPlan(int64_t rows, int64_t row_elements) {
  const int64_t most = std::max<int64_t>(
      1, std::numeric_limits<int32_t>::max() / std::max<int64_t>(1, row_elements));
  const int64_t parts = (rows + most - 1) / most;
  return (rows + parts - 1) / parts;
}

// For all images of the shape, in their order; empty: cuDNN does not have one of them.
template <typename Shape>
absl::StatusOr<std::vector<ImagePlan>> ImagePlansFor(const BinderArguments& a, Shape shape,
                                                     int64_t row_elements) {
  const int64_t rows = shape.rows, most = RowsOfPlan(rows, row_elements);
  std::vector<ImagePlan> plans;
  for (int64_t first = 0; first < rows; first += most) {
    shape.rows = std::min(most, rows - first);
    ASSIGN_OR_RETURN(auto plan, CudnnPlanFor(a, shape));
    if (plan == nullptr) return std::vector<ImagePlan>();
    plans.push_back({std::move(plan), first});
  }
  return plans;
}

// The most that one of them needs: they run one after the other.
inline size_t WorkspaceBytesOf(const std::vector<ImagePlan>& plans) {
  size_t bytes = 0;
  for (const ImagePlan& each : plans) bytes = std::max(bytes, each.plan->workspace_bytes());
  return bytes;
}

// Address of the image of that number in a view whose images are dense.
inline char* ImageAt(const View& view, int64_t row, const Frame& f) {
  const int64_t elements = view.shape.elements() / view.shape[0];
  return BytesOf(view, f) + row * elements * device::SizeOf(view.dtype);
}

}  // namespace latentd::backends::cuda
