#include "core/device/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::device {

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int64_t dim : dims_) product *= dim;
  return product;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

}  // namespace latentd::device
