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

// An instruction's x [rows, depth], its first operand, times its weight [columns, depth], the
// second, with its bias, the third, if it has one, into dense lines behind an address of
// kPlaceAlignment.
ProductShape WeightProductShape(const BinderArguments& a);

// An instruction's bias as cuBLASLt reads one, which is at a multiple of 16 bytes: where it lies,
// or a copy that each run makes at the beginning of its workspace.
class ProductBias {
 public:
  ProductBias(const BinderArguments& a, const View& bias);

  // The least of a workspace, in bytes.
  size_t workspace_bytes() const;
  // Its address in that run; null: there is none.
  absl::StatusOr<const void*> Enqueue(const Frame& f) const;

 private:
  const View bias_;
  const bool is_copied_;
};

// Operands of a linear layer; those that are absent are not present().
struct LinearOperands {
  View x, weight;  // [rows, depth], [columns, depth]
  View scale;      // f32 []: of those of 8 bits
  View bias, residual;
};

// Linear layers, and convolutions of one pixel.
absl::StatusOr<BoundKernel> BindWeightProduct(const BinderArguments& a,
                                              const LinearOperands& operands);

}  // namespace latentd::backends::cuda
