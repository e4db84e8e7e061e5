// Matrix products that instructions consist of.
//
// Internal to this directory.
#pragma once

#include <memory>

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {

// The product as cuBLASLt computes it, by the choice that there is or is made for it; in TF32 where
// its operands are f32 and that GPU may.
absl::StatusOr<std::shared_ptr<const Product>> BindProduct(const BinderArguments& a,
                                                           ProductShape shape);

// An instruction's x [rows, depth] times its weight [columns, depth], with its bias if it has one,
// into dense lines behind an address of kPlaceAlignment.
ProductShape WeightProductShape(const BinderArguments& a);

// An instruction's bias as cuBLASLt reads one, which is at a multiple of 16 bytes: where it lies,
// or a copy that each run makes at the beginning of its workspace.
class ProductBias {
 public:
  explicit ProductBias(const BinderArguments& a);

  // The least of a workspace, in bytes.
  size_t workspace_bytes() const;
  // Its address in that run; null: there is none.
  absl::StatusOr<const void*> Enqueue(const Frame& f) const;

 private:
  const View bias_;
  const bool is_copied_;
};

// x [rows, depth] times a weight [columns, depth], with the instruction's bias and residual where
// it has them: linear layers, and convolutions of one pixel.
absl::StatusOr<BoundKernel> BindWeightProduct(const BinderArguments& a);

}  // namespace latentd::backends::cuda
