// The network cases: one evaluation of one network with synthetic weights, against what diffusers
// or transformers computed.
#pragma once

#include "core/backends/backend.h"
#include "tests/golden/command_line.h"
#include "tests/golden/report.h"

namespace latentd::golden {

// A case passes iff all its outputs are within this of the largest value; in a lesser precision,
// iff they have not lost much more than diffusers' (losses.h).
inline constexpr double kNetworkTolerance = 1e-4;

// Runs the selected cases of networks.json the way latentd runs graphs: split by rate, compiled,
// loaded, the request part row by row. Cases marked full are skipped unless the options ask for
// them.
void RunNetworkCases(const Options& options, backends::Backend& backend, Report& report);

}  // namespace latentd::golden
