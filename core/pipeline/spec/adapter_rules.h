// Rules of the fields that name adapters (fields.h). Their names are looked up when the request is
// resolved (core/pipeline/plan).
#pragma once

#include "core/pipeline/spec/fields.h"

namespace latentd::pipeline {

// At most kMaxAdapters, each once, with weights that are numbers.
void AreAdapters(const Field& field, const AskedSpec& asked, Violations& found);
// At most kMaxControls, each with a part of the evaluations.
void AreControls(const Field& field, const AskedSpec& asked, Violations& found);
// Adds a violation where the field is set and there are no controls.
void NeedsControls(const Field& field, const AskedSpec& asked, Violations& found);
// At most kMaxIpAdapters, with scales of blocks that some UNet has.
void AreImagePrompts(const Field& field, const AskedSpec& asked, Violations& found);

}  // namespace latentd::pipeline
