// Stable Video Diffusion: img2vid, img2vid-xt and xt-1.1.
#pragma once

#include "core/families/family/family.h"

namespace latentd::families::svd {

extern const Family kFamily;

}  // namespace latentd::families::svd
