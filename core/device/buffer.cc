#include "core/device/buffer.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/alignment.h"

namespace latentd::device {

Buffer Buffer::Allocate(DType dtype, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.elements() * SizeOf(dtype));
  const size_t rounded = RoundUp(bytes, kAlignment);
  void* data = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return Wrap(data, dtype, std::move(shape), std::shared_ptr<void>(data, std::free));
}

Buffer Buffer::Wrap(void* data, DType dtype, Shape shape, std::shared_ptr<const void> owner) {
  Buffer buffer;
  buffer.data_ = data;
  buffer.dtype_ = dtype;
  buffer.shape_ = std::move(shape);
  buffer.owner_ = std::move(owner);
  return buffer;
}

Buffer Buffer::Reshaped(Shape shape) const {
  assert(shape.elements() == elements());
  Buffer buffer = *this;
  buffer.shape_ = std::move(shape);
  return buffer;
}

Buffer Buffer::Rows(int64_t begin, int64_t end) const {
  assert(0 <= begin && begin <= end && end <= shape_[0]);
  std::vector<int64_t> dims = shape_.dims();
  const size_t row_bytes = dims[0] == 0 ? 0 : bytes() / static_cast<size_t>(dims[0]);
  dims[0] = end - begin;
  return Wrap(static_cast<char*>(data_) + begin * static_cast<int64_t>(row_bytes), dtype_,
              Shape(std::move(dims)), owner_);
}

}  // namespace latentd::device
