// A Buffer is typed memory on one device, passed between directories instead of a tensor. A
// ConstBuffer is the same memory for readers only.
//
// Both are handles: copies share the memory, which is freed with the last of them (or never, if it
// was borrowed), and `const` says nothing about the contents, as for absl::Span. The contents are
// dense and row-major. Threads may read distinct copies; the order of writes is agreed elsewhere:
// for memory that a device works on, by its streams (core/device/device.h). Host memory is aligned
// to 64 bytes when this file allocates it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "core/device/dtype.h"
#include "core/device/shape.h"

namespace latentd::device {

inline constexpr size_t kAlignment = 64;

// The kind of a buffer's memory. The host reads and writes the first two; kPinned is memory of the
// host that a device copies from and to without waiting for the host.
enum class Place : uint8_t { kHost, kPinned, kDevice };

class ConstBuffer {
 public:
  ConstBuffer() = default;  // no memory, no elements

  // Memory at `place` that `owner` keeps alive (nullptr: the caller sees to it).
  static ConstBuffer Wrap(const void* data, DType dtype, Shape shape,
                          std::shared_ptr<const void> owner, Place place = Place::kHost);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Place place() const { return place_; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements() * SizeOf(dtype_)); }
  bool has_memory() const { return data_ != nullptr; }

  // An address of the device that the memory is on: the host may follow it at kHost and kPinned.
  const void* data() const { return data_; }

  // The elements. REQUIRES, and ends the process otherwise, in every build: T is the C++ type of
  // dtype() (of f16 and bf16: uint16_t, of 8-bit floats: uint8_t, their bits), and the host can
  // read the memory.
  template <typename T>
  absl::Span<const T> as() const {
    return {static_cast<const T*>(HostData<T>()), static_cast<size_t>(elements())};
  }

  // The same memory under another shape. REQUIRES: as many elements.
  ConstBuffer Reshaped(Shape shape) const;

  // Rows [begin, end) of the outermost dimension, sharing memory. REQUIRES: 0 <= begin <= end <=
  // shape()[0].
  ConstBuffer Rows(int64_t begin, int64_t end) const;

 protected:
  template <typename T>
  void* HostData() const {
    CheckHostAccess(sizeof(T), std::is_floating_point_v<T>);
    return data_;
  }

  void* data_ = nullptr;

 private:
  void CheckHostAccess(size_t element_bytes, bool is_floating_point) const;

  DType dtype_ = DType::kF32;
  Place place_ = Place::kHost;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
};

class Buffer : public ConstBuffer {
 public:
  Buffer() = default;

  // Zero-filled memory of the host that this buffer owns.
  static Buffer Allocate(DType dtype, Shape shape);

  // As ConstBuffer::Wrap.
  static Buffer Wrap(void* data, DType dtype, Shape shape, std::shared_ptr<const void> owner,
                     Place place = Place::kHost);

  void* data() const { return data_; }

  // As ConstBuffer::as.
  template <typename T>
  absl::Span<T> as() const {
    return {static_cast<T*>(HostData<T>()), static_cast<size_t>(elements())};
  }

  Buffer Reshaped(Shape shape) const { return Buffer(ConstBuffer::Reshaped(std::move(shape))); }
  Buffer Rows(int64_t begin, int64_t end) const { return Buffer(ConstBuffer::Rows(begin, end)); }

 private:
  // REQUIRES: the memory may be written.
  explicit Buffer(ConstBuffer writable) : ConstBuffer(std::move(writable)) {}
};

}  // namespace latentd::device
