// Rules of fields that say something about a mask.
#pragma once

#include "core/pipeline/spec/fields.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {

// Adds a violation where the field is set without a mask; where it `lays_over` the result what the
// mask keeps, also where that has no pixels.
template <bool lays_over>
void NeedsMask(const Field& field, const AskedSpec& asked, Violations& found) {
  if (!IsSet(field, asked.spec)) return;
  if (!asked.spec.has_mask) found.Add(field.name, "needs a mask_image");
  if (lays_over && asked.spec.output_latents) found.Add(field.name, "needs pixels, not latents");
}

// Adds violations where a differential mask is set beside what it has no meaning with, or for a
// model whose UNet reads the mask.
void CheckDifferential(const Field& field, const AskedSpec& asked, Violations& found);

}  // namespace latentd::pipeline
