// The table of request fields of videos, as fields.h has those of pictures: a row for each field of
// a spec that a request for videos can set. Conversion from and to the API, limits and the content
// of a request are loops over it; validation and defaults are those of the model's family
// (core/families/family/video_family.h). The image is a file, and has none.
//
// Thread-safe: the table never changes.
#pragma once

#include <vector>

#include "core/pipeline/spec/fields.h"

namespace latentd::pipeline {

// All rows, in the order of the API. REQUIRES of what visits them: the spec has a `video`.
const std::vector<Field>& VideoFields();

}  // namespace latentd::pipeline
