#include "core/device/buffer.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/fatal.h"

namespace latentd::device {

ConstBuffer ConstBuffer::Wrap(const void* data, DType dtype, Shape shape,
                              std::shared_ptr<const void> owner, Place place) {
  ConstBuffer buffer;
  // Only a Buffer gives it out for writing, and none is made of this.
  buffer.data_ = const_cast<void*>(data);
  buffer.dtype_ = dtype;
  buffer.place_ = place;
  buffer.shape_ = std::move(shape);
  buffer.owner_ = std::move(owner);
  return buffer;
}

ConstBuffer ConstBuffer::Reshaped(Shape shape) const {
  assert(shape.elements() == elements());
  ConstBuffer buffer = *this;
  buffer.shape_ = std::move(shape);
  return buffer;
}

ConstBuffer ConstBuffer::Rows(int64_t begin, int64_t end) const {
  assert(0 <= begin && begin <= end && end <= shape_[0]);
  std::vector<int64_t> dims = shape_.dims();
  const size_t row_bytes = dims[0] == 0 ? 0 : bytes() / static_cast<size_t>(dims[0]);
  dims[0] = end - begin;
  return Wrap(static_cast<char*>(data_) + begin * static_cast<int64_t>(row_bytes), dtype_,
              Shape(std::move(dims)), owner_, place_);
}

void ConstBuffer::CheckHostAccess(size_t element_bytes, bool is_floating_point) const {
  const bool fits = element_bytes == static_cast<size_t>(SizeOf(dtype_)) &&
                    is_floating_point == (dtype_ == DType::kF32);
  if (fits && place_ != Place::kDevice) return;
  Fatal(absl::StrCat("a buffer ", Name(dtype_), shape_.ToString(),
                     place_ == Place::kDevice ? " in a device's memory" : "",
                     " was read or written on the host as ",
                     is_floating_point ? "numbers of " : "integers of ", element_bytes,
                     " bytes: this is a mistake in the program"));
}

Buffer Buffer::Allocate(DType dtype, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.elements() * SizeOf(dtype));
  const size_t rounded = RoundUp(bytes, kAlignment);
  void* data = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return Wrap(data, dtype, std::move(shape), std::shared_ptr<void>(data, std::free));
}

Buffer Buffer::Wrap(void* data, DType dtype, Shape shape, std::shared_ptr<const void> owner,
                    Place place) {
  return Buffer(ConstBuffer::Wrap(data, dtype, std::move(shape), std::move(owner), place));
}

}  // namespace latentd::device
