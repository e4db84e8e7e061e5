// Runs an executable once with inputs by name, into fresh outputs: for graphs that run once a
// picture.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/executable.h"
#include "core/device/buffer.h"

namespace latentd::pipeline {

using NamedBuffers = absl::flat_hash_map<std::string, device::Buffer>;

// INTERNAL if an input of the executable is not given.
absl::StatusOr<NamedBuffers> RunGraph(backends::Executable& executable, const NamedBuffers& inputs);

}  // namespace latentd::pipeline
