// Weights of convolutions in the form in which kernels read them.
//
// Internal to this directory.
#pragma once

#include <string>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/binders/packing.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {

// The second operand, channels last: packed when it was loaded, or in each run in the workspace.
class PackedWeight {
 public:
  explicit PackedWeight(const BinderArguments& a)
      : weight_(a.operand(1)), is_held_(a.weight_is_held()) {}

  int64_t bytes() const { return weight_.shape.elements() * device::SizeOf(weight_.dtype); }
  size_t workspace_bytes() const { return is_held_ ? 0 : RoundUp<size_t>(bytes(), 256); }
  // A kernel that reads it and needs nothing else yet.
  BoundKernel Reader() const {
    BoundKernel kernel;
    kernel.workspace_bytes = workspace_bytes();
    if (is_held_) {
      kernel.packing =
          weights::WeightFormat{std::string(kChannelsLastForm), static_cast<size_t>(bytes()), 0};
    }
    return kernel;
  }

  // Its address; `workspace` is written where it has to be packed.
  absl::StatusOr<const char*> Enqueue(const Frame& f, char* workspace) const {
    if (is_held_) return static_cast<const char*>(f.packed);
    RETURN_IF_ERROR(
        PackChannelsLast(weight_.dtype, weight_.shape, BytesOf(weight_, f), workspace, f.stream));
    return workspace;
  }

 private:
  const View weight_;
  const bool is_held_;
};

}  // namespace latentd::backends::cuda
