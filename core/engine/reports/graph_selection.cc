#include "core/engine/reports/graph_selection.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using Ids = std::set<std::string>;

// As --precision spells it.
std::string PrecisionName(device::DType dtype) {
  if (dtype == device::DType::kF32) return "fp32";
  if (dtype == device::DType::kF8E4M3) return "fp8";
  return dtype == device::DType::kF16 ? "fp16" : "bf16";
}

// True if the graphs could replace each other, but for what they compute in.
bool HaveOnePurpose(compiler::GraphLabel a, const compiler::GraphLabel& b) {
  a.dtype = b.dtype;
  return a == b;
}

// "computes in fp32, wanted bf16", "has backend cpu, wanted reference".
std::string Difference(const GraphStatus& found, const GraphStatus& wanted) {
  if (found.label.dtype == wanted.label.dtype) {
    return absl::StrCat("has ", compiler::Difference(found.key, wanted.key));
  }
  return absl::StrCat("computes in ", PrecisionName(found.label.dtype), ", wanted ",
                      PrecisionName(wanted.label.dtype));
}

absl::Status NoSuchGraph(absl::string_view what) {
  return WithReason(absl::NotFoundError(absl::StrCat("no graph has the ", what)), "NO_SUCH_GRAPH");
}

absl::Status AddById(const std::string& id, const std::vector<GraphStatus>& all, Ids& chosen) {
  Ids found;
  for (const GraphStatus& info : all) {
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

void AddByComponent(const std::string& component, const std::vector<GraphStatus>& all,
                    Ids& chosen) {
  for (const GraphStatus& info : all) {
    if (info.label.component == component) chosen.insert(info.id);
  }
}

bool IsOfAny(const GraphStatus& info, const std::vector<std::string>& models) {
  return absl::c_any_of(models, [&](const std::string& model) {
    return info.label.model == model || absl::c_linear_search(info.users, model);
  });
}

absl::Status CheckModels(const std::vector<std::string>& models,
                         const std::vector<GraphStatus>& all) {
  for (const std::string& model : models) {
    if (absl::c_any_of(all, [&](const GraphStatus& info) { return IsOfAny(info, {model}); }))
      continue;
    return NoSuchGraph(absl::StrCat("model \"", Excerpt(model), "\""));
  }
  return absl::OkStatus();
}

absl::Status AddByBucket(pipeline::Size bucket, const std::vector<GraphStatus>& all,
                         const std::vector<BucketNeeds>& served, Ids& chosen) {
  Ids found;
  for (const GraphStatus& info : all) {
    if (info.label.width == bucket.width && info.label.height == bucket.height &&
        info.label.frames == bucket.frames) {
      found.insert(info.id);
    }
  }
  for (const BucketNeeds& needs : served) {
    if (needs.bucket == bucket) found.insert(needs.ids.begin(), needs.ids.end());
  }
  if (found.empty()) return NoSuchGraph(absl::StrCat("bucket ", SizeText(bucket)));
  chosen.merge(found);
  return absl::OkStatus();
}

Ids IdsOf(const std::vector<GraphStatus>& infos) {
  Ids ids;
  for (const GraphStatus& info : infos) ids.insert(info.id);
  return ids;
}

bool IsNamed(const GraphStatus& info, const GraphSelector& selector) {
  const auto begins = [&](const std::string& id) { return absl::StartsWith(info.id, id); };
  return selector.all || selector.only_models() ||
         absl::c_linear_search(selector.components, info.label.component) ||
         absl::c_any_of(selector.ids, begins);
}

// Graphs of the other buckets that stay: of those of which a graph in `kept` is not in
// `selected`.
Ids NeededByOthers(const std::vector<pipeline::Size>& buckets, const Ids& selected, const Ids& kept,
                   const std::vector<BucketNeeds>& served) {
  Ids needed;
  for (const BucketNeeds& other : served) {
    if (absl::c_linear_search(buckets, other.bucket)) continue;
    const bool stays = std::any_of(other.ids.begin(), other.ids.end(), [&](const std::string& id) {
      return kept.contains(id) && !selected.contains(id);
    });
    if (stays) needed.insert(other.ids.begin(), other.ids.end());
  }
  return needed;
}

}  // namespace

absl::StatusOr<std::vector<GraphStatus>> Select(const GraphSelector& selector,
                                                std::vector<GraphStatus> all,
                                                const std::vector<BucketNeeds>& served) {
  Ids chosen;
  for (const std::string& id : selector.ids) RETURN_IF_ERROR(AddById(id, all, chosen));
  for (const std::string& component : selector.components) AddByComponent(component, all, chosen);
  for (pipeline::Size bucket : selector.buckets) {
    RETURN_IF_ERROR(AddByBucket(bucket, all, served, chosen));
  }
  RETURN_IF_ERROR(CheckModels(selector.models, all));
  const bool any = selector.all || selector.only_models();
  const auto left_out = [&](const GraphStatus& info) {
    return !(any || chosen.contains(info.id)) ||
           !(selector.models.empty() || IsOfAny(info, selector.models));
  };
  all.erase(std::remove_if(all.begin(), all.end(), left_out), all.end());
  return all;
}

absl::StatusOr<std::vector<GraphStatus>> SelectToRelease(
    const GraphSelector& selector, const std::vector<GraphStatus>& all,
    const std::vector<BucketNeeds>& served, const std::function<bool(const GraphStatus&)>& kept) {
  ASSIGN_OR_RETURN(std::vector<GraphStatus> selected, Select(selector, all, served));
  Ids kept_ids;
  for (const GraphStatus& info : all) {
    if (kept(info)) kept_ids.insert(info.id);
  }
  const Ids needed = NeededByOthers(selector.buckets, IdsOf(selected), kept_ids, served);
  std::erase_if(selected, [&](const GraphStatus& info) {
    return needed.contains(info.id) && !IsNamed(info, selector);
  });
  return selected;
}

std::string WhyUnused(const GraphStatus& graph, const std::vector<GraphStatus>& known,
                      const std::vector<BucketNeeds>& served) {
  Ids needed;
  for (const BucketNeeds& bucket : served) needed.insert(bucket.ids.begin(), bucket.ids.end());
  if (needed.contains(graph.id)) return "";
  for (const GraphStatus& info : known) {
    if (!needed.contains(info.id) || !HaveOnePurpose(info.label, graph.label)) continue;
    return absl::StrCat("this server needs another ", info.label.ToText(), ": this one ",
                        Difference(graph, info));
  }
  return absl::StrCat("no bucket of this server needs ", graph.label.ToText());
}

GraphEntry EntryOf(const GraphStatus& info) {
  return {.id = info.id,
          .model = info.label.model,
          .component = info.label.component,
          .part = info.label.part,
          .bucket = {info.label.width, info.label.height, info.label.frames},
          .rows = info.label.rows,
          .fallback = info.label.fallback,
          .precision = PrecisionName(info.label.dtype),
          .users = info.users,
          .state = info.state,
          .reason = info.reason,
          .key = {{"graph", info.key.other_form.has_value() ? "" : info.key.graph.ToString()},
                  {"options", info.key.build.options},
                  {"sources", info.key.build.sources},
                  {"backend", info.key.build.backend},
                  {"fingerprint", info.key.build.fingerprint}},
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

EntryResult ResultOf(const GraphStatus& info, absl::Status status) {
  return {.id = info.id,
          .model = info.label.model,
          .component = info.label.component,
          .bucket = {info.label.width, info.label.height, info.label.frames},
          .status = std::move(status)};
}

}  // namespace latentd::engine
