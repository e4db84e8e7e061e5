#include "core/pipeline/plan/init_image.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/decode.h"

namespace latentd::pipeline {

absl::StatusOr<std::optional<Size>> ImageSizeOf(const Inputs& inputs) {
  if (inputs.image.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const image::Dimensions size, image::ReadDimensions(inputs.image));
  return Size{size.width, size.height};
}

void CheckMaskFile(const Inputs& inputs, const PictureSpec& spec, const Size* image_size,
                   std::vector<FieldViolation>& violations) {
  if (inputs.mask_image.empty()) return;
  const absl::StatusOr<image::Dimensions> read = image::ReadDimensions(inputs.mask_image);
  if (!read.ok()) {
    violations.push_back({"mask_image", std::string(read.status().message())});
    return;
  }
  const Size size = {read->width, read->height};
  if (!spec.padding_mask_crop || image_size == nullptr || *image_size == size) return;
  violations.push_back(
      {"mask_image", absl::StrCat("must have the size of image with padding_mask_crop, which is ",
                                  SizeText(*image_size), ", is ", SizeText(size))});
}

}  // namespace latentd::pipeline
