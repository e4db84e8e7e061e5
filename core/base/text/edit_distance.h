// How alike two words are, to suggest one for another.
//
// Pure.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace latentd {

// How many letters must be left out, put in, replaced or swapped with the next one to make one of
// the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace latentd
