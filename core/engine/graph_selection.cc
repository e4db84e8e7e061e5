#include "core/engine/graph_selection.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_metrics.h"
#include "core/pipeline/components.h"

namespace latentd::engine {
namespace {

using compiler::GraphInfo;
using Ids = std::set<std::string>;

constexpr size_t kFewestDigits = 6;
constexpr size_t kMostNamed = 10;

absl::Status NoSuchGraph(absl::string_view what) {
  return WithReason(absl::NotFoundError(absl::StrCat("no graph has the ", what)), "NO_SUCH_GRAPH");
}

absl::Status AddById(const std::string& id, const std::vector<GraphInfo>& all, Ids& chosen) {
  if (id.size() < kFewestDigits) {
    return absl::InvalidArgumentError(
        absl::StrCat("id \"", Excerpt(id), "\": must have at least ", kFewestDigits, " digits"));
  }
  Ids found;
  for (const GraphInfo& info : all) {
    if (absl::StartsWith(info.id, id)) found.insert(info.id);
  }
  if (found.empty()) {
    return NoSuchGraph(absl::StrCat("id \"", Excerpt(id), "\""));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("id \"", Excerpt(id), "\" begins ", found.size(), " graphs' ids"));
  }
  chosen.merge(found);
  return absl::OkStatus();
}

absl::Status AddByComponent(const std::string& component, const std::vector<GraphInfo>& all,
                            Ids& chosen) {
  const auto& names = pipeline::kComponentNames;
  if (std::find(std::begin(names), std::end(names), component) == std::end(names)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "component \"", Excerpt(component), "\": must be one of ", absl::StrJoin(names, ", ")));
  }
  for (const GraphInfo& info : all) {
    if (info.label.component == component) chosen.insert(info.id);
  }
  return absl::OkStatus();
}

absl::Status AddByBucket(pipeline::Size bucket, const std::vector<GraphInfo>& all, Ids& chosen) {
  bool found = false;
  for (const GraphInfo& info : all) {
    if (info.label.width != bucket.width || info.label.height != bucket.height) continue;
    chosen.insert(info.id);
    found = true;
  }
  if (found) return absl::OkStatus();
  return NoSuchGraph(absl::StrCat("bucket ", SizeText(bucket)));
}

}  // namespace

absl::Status CheckNotEmpty(const GraphSelector& selector) {
  const bool any = selector.all || !selector.ids.empty() || !selector.components.empty() ||
                   !selector.buckets.empty();
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the selector is empty: name ids, components or buckets, or set all");
}

absl::StatusOr<std::vector<GraphInfo>> Select(const GraphSelector& selector,
                                              std::vector<GraphInfo> all) {
  RETURN_IF_ERROR(CheckNotEmpty(selector));
  Ids chosen;
  for (const std::string& id : selector.ids) RETURN_IF_ERROR(AddById(id, all, chosen));
  for (const std::string& component : selector.components) {
    RETURN_IF_ERROR(AddByComponent(component, all, chosen));
  }
  for (pipeline::Size bucket : selector.buckets) {
    RETURN_IF_ERROR(AddByBucket(bucket, all, chosen));
  }
  if (selector.all) return all;
  const auto left_out = [&](const GraphInfo& info) { return !chosen.contains(info.id); };
  all.erase(std::remove_if(all.begin(), all.end(), left_out), all.end());
  return all;
}

GraphEntry EntryOf(const GraphInfo& info) {
  return {.id = info.id,
          .component = info.label.component,
          .part = info.label.part,
          .bucket = {info.label.width, info.label.height},
          .rows = info.label.rows,
          .fallback = info.label.fallback,
          .users = info.users,
          .state = static_cast<GraphState>(info.state),
          .reason = info.reason,
          .key = {{"graph", info.key.graph},
                  {"precision", info.key.precision},
                  {"options", info.key.options},
                  {"sources", info.key.sources},
                  {"backend", info.key.backend},
                  {"fingerprint", info.key.fingerprint}},
          .device_bytes = info.device_bytes,
          .arena_bytes = info.arena_bytes,
          .memory_bytes = info.memory_bytes,
          .disk_bytes = info.disk_bytes,
          .compile_time = info.compile_time,
          .load_time = info.load_time,
          .hits = info.hits,
          .last_use = info.last_use,
          .pinned = info.pinned,
          .in_use = info.in_use};
}

EntryResult ResultOf(const GraphInfo& info, absl::Status status) {
  return {info.id, info.label.component, {info.label.width, info.label.height}, std::move(status)};
}

std::string NameSome(const std::vector<std::string>& names) {
  const size_t named = std::min(names.size(), kMostNamed);
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(named), "; ");
  if (names.size() > named) absl::StrAppend(&text, " and ", names.size() - named, " more");
  return text;
}

}  // namespace latentd::engine
