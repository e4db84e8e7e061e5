// The limits of fields that a request has wrong, for programs: the server's numbers as
// GetCapabilities names them, or GetVideoCapabilities.
//
// Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/engine/engine.h"

namespace latentd::server::generation {

// Kind of results that a request asks for.
enum class Results { kPictures, kVideos };

// `refused` with reason BAD_FIELDS and the limits of what is bad, where it names bad fields and has
// no reason of its own; else as it is. `caller`: as of server/generation/caller.h.
// REQUIRES: the engine was kWarming once, where fields are named.
absl::Status WithLimits(const absl::Status& refused, const engine::Engine& engine,
                        absl::string_view caller, Results results);

}  // namespace latentd::server::generation
