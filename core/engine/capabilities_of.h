// Capabilities of an engine with these models and this configuration, for clients that ask before
// they request pictures.
//
// Pure.
#pragma once

#include <vector>

#include "core/engine/api/capabilities.h"
#include "core/engine/api/config.h"
#include "core/engine/api/status.h"
#include "core/pipeline/pipeline.h"

namespace latentd::engine {

// `buckets` as the status has them.
Capabilities CapabilitiesOf(const pipeline::Pipeline& pipeline, const Config& config,
                            std::vector<ServerStatus::Bucket> buckets);

}  // namespace latentd::engine
