#include "core/backends/cpu/binding/element.h"

namespace latentd::backends::cpu {

using device::DType;

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

Element ElementOf(DType dtype) {
  if (dtype == DType::kBF16) return Element::kBF16;
  return dtype == DType::kF16 ? Element::kF16 : Element::kF32;
}

device::ConstBuffer InFloat32(const device::ConstBuffer& plain) {
  if (plain.dtype() == DType::kF32) return plain;
  const device::Buffer wide = device::Buffer::Allocate(DType::kF32, plain.shape());
  ConvertToFloat32(plain, wide.data());
  return wide;
}

// Every instruction set converts to the same bits.
void ConvertToFloat32(const device::ConstBuffer& plain, void* wide) {
  KernelsOfThisMachine().convert(ElementOf(plain.dtype()), Element::kF32, plain.data(), wide,
                                 plain.elements());
}

size_t Float32CopyBytes(DType plain, int64_t elements) {
  return plain == DType::kF32 ? 0 : static_cast<size_t>(elements) * sizeof(float);
}

}  // namespace latentd::backends::cpu
