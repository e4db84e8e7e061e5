// Defects that a decoder passed over in an image that is damaged and can be read all the same.
#pragma once

#include <string>
#include <vector>

namespace latentd::image {

// A sentence for each thing.
using PassedOver = std::vector<std::string>;

}  // namespace latentd::image
