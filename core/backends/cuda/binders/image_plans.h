// Plans of cuDNN for images. It may count the elements of a tensor in 32 bits: of more than that, a
// plan takes some images at a time, or some lines of one (core/backends/lowering/image_parts.h).
//
// Internal to this directory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/lowering/image_parts.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {

// A plan, and where it begins: at an image, and at lines of it and of its result.
struct ImagePlan {
  std::shared_ptr<const CudnnPlan> plan;
  int64_t first_row = 0;
  int64_t first_line = 0, first_result_line = 0;
};

// For all images of the shape, in their order; empty: cuDNN does not have one of them, or an image
// is too large. `row_elements`: of an image or of its result, the larger one.
template <typename Shape>
absl::StatusOr<std::vector<ImagePlan>> ImagePlansFor(const BinderArguments& a, Shape shape,
                                                     int64_t row_elements) {
  std::vector<ImagePlan> plans;
  if (row_elements > lowering::kMostCounted) return plans;
  const int64_t rows = shape.rows, most = lowering::RowsOfPart(rows, row_elements);
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

// Address of that line of the image of that number, in a view that is dense.
inline char* ImageAt(const View& view, int64_t row, int64_t line, const Frame& f) {
  const int64_t lines = row * view.shape[1] + line;
  return BytesOf(view, f) + lines * view.shape[2] * view.shape[3] * device::SizeOf(view.dtype);
}

}  // namespace latentd::backends::cuda
