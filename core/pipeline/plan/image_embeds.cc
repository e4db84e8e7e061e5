#include "core/pipeline/plan/image_embeds.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/plan/embeds.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

using Dims = std::vector<int64_t>;

// "[2, n, 257, 1280]", with the dimensions in front of those of an image.
std::string ShapeWith(absl::string_view first, const Dims& of_image) {
  return absl::StrCat("[", first, ", ", absl::StrJoin(of_image, ", "), "]");
}

absl::Status WrongShape(const std::string& field, const ImagePrompt& prompt, const Dims& shape) {
  const Dims& of_image = prompt.image_shape;
  return InvalidFields(
      {{field, absl::StrCat("must have the shape ", ShapeWith("2, n", of_image),
                            " of n images, from 1 to ", kMaxImagesOfIpAdapter,
                            ", the negative prompt's first, or ", ShapeWith("1, n", of_image),
                            " without these, since the image encoder of ", prompt.name, " gives ",
                            absl::StrJoin(of_image, " x "), " numbers an image; has ",
                            ShapeText(shape))}});
}

}  // namespace

absl::StatusOr<ImageEmbedsLayout> CheckImageEmbeds(const std::string& field,
                                                   const ImagePrompt& prompt,
                                                   const HostTensor& tensor) {
  const Dims &of_image = prompt.image_shape, &shape = tensor.shape;
  const size_t rank = of_image.size() + 2;
  if (shape.size() > rank || shape.size() < of_image.size() ||
      !std::equal(of_image.rbegin(), of_image.rend(), shape.rbegin())) {
    return WrongShape(field, prompt, shape);
  }
  Dims first(rank - shape.size(), 1);
  first.insert(first.end(), shape.begin(),
               shape.end() - static_cast<std::ptrdiff_t>(of_image.size()));
  const int64_t sides = first[0], images = first[1];
  // Two rows alone may be two images, or the negative prompt's and the prompt's.
  const bool is_clear = shape.size() == rank || images == 1;
  if (!is_clear || sides < 1 || sides > 2 || images < 1 ||
      images > static_cast<int64_t>(kMaxImagesOfIpAdapter)) {
    return WrongShape(field, prompt, shape);
  }
  RETURN_IF_ERROR(CheckNumbers(field, tensor));
  return ImageEmbedsLayout{static_cast<int>(sides), static_cast<int>(images)};
}

bool ReadImageEmbeds(const HostTensor& tensor, bool negative, absl::Span<float> values) {
  const auto own = static_cast<int64_t>(values.size());
  const bool has_negative = ElementsOf(tensor) > own;
  if (negative && !has_negative) return false;
  Widen(tensor, has_negative && !negative ? own : 0, values);
  return true;
}

}  // namespace latentd::pipeline
