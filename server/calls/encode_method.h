// Encode: a request that ends with what its text encoders give.
#pragma once

#include "server/calls/unary_call.h"

namespace latentd::server::calls {

extern const UnaryMethod kEncode;

}  // namespace latentd::server::calls
