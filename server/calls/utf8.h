// Finds string fields of a message on the wire that are not UTF-8. Protobuf refuses such a message
// without saying which field it was, and gRPC's generated handlers then answer UNIMPLEMENTED, so
// latentd looks for itself.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace latentd::server::calls {

// Names like "prompt" or "output.name", each once; empty where all strings are UTF-8 or the bytes
// stop being readable before. REQUIRES: `type` does not contain itself.
std::vector<std::string> FindInvalidUtf8(const google::protobuf::Descriptor& type,
                                         absl::string_view bytes);

}  // namespace latentd::server::calls
