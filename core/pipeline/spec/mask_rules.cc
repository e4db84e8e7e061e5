#include "core/pipeline/spec/mask_rules.h"

#include "absl/strings/string_view.h"
#include "core/pipeline/spec/models/model_table.h"

namespace latentd::pipeline {

void CheckDifferential(const Field& field, const AskedSpec& asked, Violations& found) {
  constexpr absl::string_view kGreys =
      "must not be set with differential: a grey would say how much to draw there, and how much of "
      "it to mix with the image";
  const PictureSpec& spec = asked.spec;
  if (!spec.differential) return;
  if (spec.padding_mask_crop) found.Add("padding_mask_crop", kGreys);
  if (spec.preserve_unmasked) found.Add("preserve_unmasked", kGreys);
  const ModelRow* model = asked.traits.models.Find(spec.model);
  if (model == nullptr || !model->inpaints) return;
  found.Add(field.name, "is for models whose UNet reads no mask, and that of ", model->name,
            " does: it would have one mask for all steps");
}

}  // namespace latentd::pipeline
