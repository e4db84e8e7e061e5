#include "core/backends/reference/tensor_view.h"

#include <ATen/ops/from_blob.h>

#include <array>
#include <cassert>

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;

// In the order of DType.
constexpr std::array<c10::ScalarType, 7> kScalarTypes = {
    c10::ScalarType::Float,      c10::ScalarType::Half, c10::ScalarType::BFloat16,
    c10::ScalarType::Long,       c10::ScalarType::Byte, c10::ScalarType::Float8_e4m3fn,
    c10::ScalarType::Float8_e5m2};

DType FromScalarType(c10::ScalarType type) {
  for (size_t i = 0; i < kScalarTypes.size(); ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  assert(false && "a dtype that graphs do not have");
  return DType::kF32;
}

}  // namespace

c10::ScalarType ToScalarType(DType dtype) { return kScalarTypes[static_cast<size_t>(dtype)]; }

at::Tensor View(const device::ConstBuffer& buffer) {
  return at::from_blob(const_cast<void*>(buffer.data()), buffer.shape().dims(),
                       at::TensorOptions().dtype(ToScalarType(buffer.dtype())));
}

Buffer ToBuffer(const at::Tensor& tensor) {
  assert(tensor.is_contiguous() && tensor.device().is_cpu());
  return Buffer::Wrap(tensor.data_ptr(), FromScalarType(tensor.scalar_type()),
                      Shape(tensor.sizes().vec()), std::make_shared<at::Tensor>(tensor));
}

}  // namespace latentd::backends::reference
