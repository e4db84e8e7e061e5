// The sizes of a tensor's dimensions, outermost first. A scalar has none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace latentd::device {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  const std::vector<int64_t>& dims() const { return dims_; }

  // Negative indices count from the end. REQUIRES: -rank() <= index < rank().
  int64_t operator[](int index) const { return dims_[index < 0 ? index + rank() : index]; }

  // The product of all dimensions; 1 for a scalar.
  int64_t elements() const;

  // "[1,4,32,32]".
  std::string ToString() const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

}  // namespace latentd::device
