// Selection of graphs on the devices of an engine (GraphSelector).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/engine/admin/admin_devices.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::engine {

using SelectedGraphs = std::vector<std::vector<compiler::GraphStatus>>;  // by device

// The selected graphs; with `kept` those to release (SelectToRelease). UNAVAILABLE while
// checkpoints are loaded; otherwise as Select.
absl::StatusOr<SelectedGraphs> SelectOn(const AdminDevices& devices, const GraphSelector& selector,
                                        bool (*kept)(const compiler::GraphStatus&) = nullptr);

// Each for one device only: the first that has it compiled.
absl::StatusOr<SelectedGraphs> SelectToCopy(const AdminDevices& devices,
                                            const GraphSelector& selector);

}  // namespace latentd::engine
