// A Buffer is typed memory on one device: what crosses directories instead of a tensor.
//
// Copies of a Buffer share the memory, which is freed with the last of them (or never, if it was
// borrowed). The contents are dense and row-major. A Buffer itself is a value: threads may read
// distinct copies; who writes the memory is agreed elsewhere. Host memory is aligned to 64 bytes
// when this file allocates it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "core/device/dtype.h"
#include "core/device/shape.h"

namespace latentd::device {

inline constexpr size_t kAlignment = 64;

class Buffer {
 public:
  Buffer() = default;  // no memory, no elements

  // Zero-filled host memory that this buffer owns.
  static Buffer Allocate(DType dtype, Shape shape);

  // Host memory that `owner` keeps alive (nullptr: the caller sees to it).
  static Buffer Wrap(void* data, DType dtype, Shape shape, std::shared_ptr<const void> owner);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements() * SizeOf(dtype_)); }
  bool has_memory() const { return data_ != nullptr; }

  void* data() { return data_; }
  const void* data() const { return data_; }

  // REQUIRES: T is the C++ type of dtype().
  template <typename T>
  absl::Span<T> as() {
    return {static_cast<T*>(data_), static_cast<size_t>(elements())};
  }
  template <typename T>
  absl::Span<const T> as() const {
    return {static_cast<const T*>(data_), static_cast<size_t>(elements())};
  }

  // The same memory under another shape. REQUIRES: as many elements.
  Buffer Reshaped(Shape shape) const;

  // Rows [begin, end) of the outermost dimension, sharing memory. REQUIRES: 0 <= begin <= end <=
  // shape()[0].
  Buffer Rows(int64_t begin, int64_t end) const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
};

}  // namespace latentd::device
