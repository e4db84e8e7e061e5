#include "core/pipeline/spec/request/picture_spec.h"

#include "absl/strings/str_cat.h"

namespace latentd::pipeline {

std::string SizeText(const Size& size) {
  const std::string sides = SizeText(size.width, size.height);
  return size.frames == 1 ? sides : absl::StrCat(sides, "x", size.frames);
}

}  // namespace latentd::pipeline
