#include "core/engine/pool_graph_admin.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/engine/pool_reports.h"

namespace latentd::engine {
namespace {

bool IsEmpty(const GraphSelector& selector) {
  return !selector.all && selector.ids.empty() && selector.components.empty() &&
         selector.buckets.empty();
}

// Device from which a graph can be copied.
struct Source {
  size_t device = 0;
  bool compiled = false;
  bool dispensable = false;
};

using Sources = std::vector<std::pair<std::string, Source>>;  // by id

Sources SourcesOf(const std::vector<std::vector<GraphEntry>>& by_device) {
  Sources sources;
  std::map<std::string, size_t> places;
  for (size_t device = 0; device < by_device.size(); ++device) {
    for (const GraphEntry& entry : by_device[device]) {
      const Source source{device, IsCompiled(entry.state),
                          IsDispensable(entry.component, entry.rows)};
      const auto [place, is_first] = places.emplace(entry.id, sources.size());
      if (is_first) sources.emplace_back(entry.id, source);
      Source& known = sources[place->second].second;
      if (!known.compiled && source.compiled) known = source;
    }
  }
  return sources;
}

void AddOutcome(const WarmOutcome& one, WarmOutcome& all) {
  all.compiled += one.compiled;
  all.loaded += one.loaded;
  all.ready_before += one.ready_before;
  all.failed += one.failed;
  all.predicted = Sum(all.predicted, one.predicted);
}

}  // namespace

PoolGraphAdmin::PoolGraphAdmin(std::vector<Device> devices) : devices_(std::move(devices)) {
  for (const Device& device : devices_) names_.push_back(device.name);
}

absl::Status PoolGraphAdmin::AddId(const std::string& id, Parts& parts) const {
  absl::Status unknown;
  bool known = false;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const absl::Status found = devices_[i].graphs.Find(id).status();
    unknown.Update(found);
    if (!found.ok()) continue;
    known = true;
    parts[i]->ids.push_back(id);
  }
  return known ? absl::OkStatus() : unknown;
}

absl::Status PoolGraphAdmin::AddBucket(pipeline::Size bucket, Parts& parts) const {
  absl::Status unknown;
  bool known = false;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const absl::Status found = devices_[i].graphs.List({.buckets = {bucket}}).status();
    unknown.Update(found);
    if (!found.ok()) continue;
    known = true;
    parts[i]->buckets.push_back(bucket);
  }
  return known ? absl::OkStatus() : unknown;
}

absl::StatusOr<PoolGraphAdmin::Parts> PoolGraphAdmin::Split(const GraphSelector& selector,
                                                            Sizes sizes) const {
  GraphSelector common{.all = selector.all, .components = selector.components};
  if (sizes == Sizes::kAny) common.buckets = selector.buckets;
  Parts parts(devices_.size(), common);
  for (const std::string& id : selector.ids) RETURN_IF_ERROR(AddId(id, parts));
  if (sizes == Sizes::kKnown) {
    for (pipeline::Size bucket : selector.buckets) RETURN_IF_ERROR(AddBucket(bucket, parts));
  }
  for (std::optional<GraphSelector>& part : parts) {
    if (IsEmpty(*part)) part.reset();
  }
  return parts;
}

absl::StatusOr<std::vector<std::vector<GraphEntry>>> PoolGraphAdmin::ListAll(
    const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kKnown));
  std::vector<std::vector<GraphEntry>> entries(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!parts[i].has_value()) continue;
    ASSIGN_OR_RETURN(entries[i], devices_[i].graphs.List(*parts[i]));
  }
  return entries;
}

absl::StatusOr<std::vector<GraphEntry>> PoolGraphAdmin::List(const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const std::vector<std::vector<GraphEntry>> entries, ListAll(selector));
  return MergeEntries(names_, entries);
}

absl::StatusOr<GraphEntry> PoolGraphAdmin::Find(const std::string& id) const {
  ASSIGN_OR_RETURN(std::vector<GraphEntry> entries, List({.ids = {id}}));
  return std::move(entries.front());
}

absl::StatusOr<WarmOutcome> PoolGraphAdmin::Warm(
    const GraphSelector& selector, bool dry_run,
    const std::function<bool(const WarmProgress&)>& progress) {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kAny));
  WarmOutcome all;
  int before = 0;  // graphs, on devices that are through
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!parts[i].has_value()) continue;
    int here = 0;
    const auto tell = [&](const WarmProgress& of_device) {
      WarmProgress told = of_device;
      here = of_device.total;
      told.done += before;
      told.total =
          before + here * static_cast<int>(devices_.size() - i);  // the others have as many
      told.entry.status = OfDevice(devices_[i].name, told.entry.status);
      return progress(told);
    };
    absl::StatusOr<WarmOutcome> outcome = devices_[i].graphs.Warm(*parts[i], dry_run, tell);
    if (!outcome.ok()) return OfDevice(devices_[i].name, outcome.status());
    before += here;
    AddOutcome(*outcome, all);
  }
  return all;
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::ForEachDevice(const Parts& parts,
                                                                       Verb verb) {
  std::vector<std::vector<EntryResult>> results(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!parts[i].has_value()) continue;
    absl::StatusOr<std::vector<EntryResult>> of_device = verb(devices_[i].graphs, *parts[i]);
    if (!of_device.ok()) return OfDevice(devices_[i].name, of_device.status());
    results[i] = *std::move(of_device);
  }
  return MergeResults(names_, results);
}

absl::StatusOr<PoolGraphAdmin::Parts> PoolGraphAdmin::SplitToCopy(
    const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const std::vector<std::vector<GraphEntry>> entries, ListAll(selector));
  Sources sources = SourcesOf(entries);
  const auto lacks = [](const auto& source) { return !source.second.compiled; };
  // As of one device: a request without names leaves out dispensable graphs that are not compiled.
  if (selector.ids.empty()) {
    std::erase_if(sources,
                  [&](const auto& source) { return lacks(source) && source.second.dispensable; });
  }
  const bool some_lack = std::any_of(sources.begin(), sources.end(), lacks);
  Parts parts(devices_.size());
  for (const auto& source : sources) {
    if (some_lack && !lacks(source)) continue;
    std::optional<GraphSelector>& part = parts[source.second.device];
    if (!part.has_value()) part.emplace();
    part->ids.push_back(source.first);
  }
  return parts;
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::Save(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const Parts parts, SplitToCopy(selector));
  return ForEachDevice(
      parts, [](GraphAdmin& graphs, const GraphSelector& part) { return graphs.Save(part); });
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::Load(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kKnown));
  return ForEachDevice(
      parts, [](GraphAdmin& graphs, const GraphSelector& part) { return graphs.Load(part); });
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::Verify(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kKnown));
  return ForEachDevice(
      parts, [](GraphAdmin& graphs, const GraphSelector& part) { return graphs.Verify(part); });
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::Evict(const GraphSelector& selector,
                                                               CacheTier tier, bool force) {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kKnown));
  return ForEachDevice(parts, [&](GraphAdmin& graphs, const GraphSelector& part) {
    return graphs.Evict(part, tier, force);
  });
}

absl::StatusOr<std::vector<EntryResult>> PoolGraphAdmin::SetPinned(const GraphSelector& selector,
                                                                   bool pinned) {
  ASSIGN_OR_RETURN(const Parts parts, Split(selector, Sizes::kKnown));
  return ForEachDevice(parts, [&](GraphAdmin& graphs, const GraphSelector& part) {
    return graphs.SetPinned(part, pinned);
  });
}

absl::Status PoolGraphAdmin::Export(const GraphSelector& selector,
                                    const std::function<bool(std::string artifact)>& take) {
  ASSIGN_OR_RETURN(const Parts parts, SplitToCopy(selector));
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!parts[i].has_value()) continue;
    RETURN_IF_ERROR(devices_[i].graphs.Export(*parts[i], take));
  }
  return absl::OkStatus();
}

absl::StatusOr<EntryResult> PoolGraphAdmin::Import(std::string artifact) {
  std::vector<std::vector<EntryResult>> results;
  for (const Device& device : devices_) {
    ASSIGN_OR_RETURN(EntryResult result, device.graphs.Import(artifact));
    results.push_back({std::move(result)});
  }
  return MergeResults(names_, results).front();
}

MemoryReport PoolGraphAdmin::memory() const {
  std::vector<MemoryReport> reports;
  reports.reserve(devices_.size());
  for (const Device& device : devices_) reports.push_back(device.graphs.memory());
  return MergeReports(names_, reports);
}

}  // namespace latentd::engine
