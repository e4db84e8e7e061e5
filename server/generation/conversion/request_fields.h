// Names of the fields that requests may have: a client can ask before it uses a newer one.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace latentd::server::generation {

// The paths of all fields of a message and of the messages in it, in the order of the proto:
// "prompt", "output", "output.format". REQUIRES: no message of it contains itself. Thread-safe.
std::vector<std::string> FieldPaths(const google::protobuf::Descriptor& type);

}  // namespace latentd::server::generation
