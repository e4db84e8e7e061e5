#include "core/engine/admin/selected_graphs.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"
#include "core/engine/reports/graph_selection.h"

namespace latentd::engine {

using compiler::GraphStatus;

absl::StatusOr<SelectedGraphs> SelectOn(const AdminDevices& devices, const GraphSelector& selector,
                                        bool (*kept)(const GraphStatus&)) {
  RETURN_IF_ERROR(devices.CheckOpen());
  SelectedGraphs graphs(devices.size());
  std::vector<GraphStatus> all;
  std::vector<BucketNeeds> needs;
  for (const size_t i : devices.Left()) {
    graphs[i] = devices[i].buckets().Known();
    absl::c_copy(graphs[i], std::back_inserter(all));
    absl::c_move(devices[i].buckets().Needs(), std::back_inserter(needs));
  }
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> selected,
                   kept != nullptr ? SelectToRelease(selector, all, needs, kept)
                                   : Select(selector, std::move(all), needs));
  std::set<std::string> ids;
  for (const GraphStatus& info : selected) ids.insert(info.id);
  for (std::vector<GraphStatus>& of_device : graphs) {
    std::erase_if(of_device, [&](const GraphStatus& info) { return !ids.contains(info.id); });
  }
  return graphs;
}

// Dispensable graphs are made when there is time and room: a selector that names none of them
// copies without those that are missing.
absl::StatusOr<SelectedGraphs> SelectToCopy(const AdminDevices& devices,
                                            const GraphSelector& selector) {
  ASSIGN_OR_RETURN(SelectedGraphs graphs, SelectOn(devices, selector));
  std::map<std::string, size_t> sources;  // by id: the first device that has it compiled
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const GraphStatus& info : graphs[i]) {
      if (IsCompiled(info.state)) sources.emplace(info.id, i);
    }
  }
  std::set<std::string> missing;
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::erase_if(graphs[i], [&](const GraphStatus& info) {
      const auto source = sources.find(info.id);
      if (source != sources.end()) return source->second != i;
      const compiler::GraphLabel& label = info.label;
      const bool dispensable = IsDispensable(label.component, label.part, label.rows);
      return (selector.ids.empty() && dispensable) || !missing.insert(info.id).second;
    });
  }
  return graphs;
}

}  // namespace latentd::engine
