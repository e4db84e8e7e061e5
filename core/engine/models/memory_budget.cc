#include "core/engine/models/memory_budget.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/out_of_memory.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::engine {
namespace {

// True if the bucket needs the graph. A video's chunk, and its image, have fewer frames than it;
// a picture's graph has one, and may be of a model that follows the bucket's.
bool IsOf(const MemoryBudget::Bucket& bucket, const compiler::GraphLabel& label) {
  const pipeline::Size& size = bucket.size;
  if (size.width != label.width || size.height != label.height) return false;
  if (size.frames == 1) return label.frames == 1;
  return size.frames >= label.frames && bucket.model == label.model;
}

int64_t MissingWeights(const backends::MemoryNeeds& needs,
                       absl::Span<const weights::WeightInfo> held) {
  absl::flat_hash_set<absl::string_view> keys;
  for (const weights::WeightInfo& result : held) keys.insert(result.key);
  int64_t missing = 0;
  for (const auto& [key, bytes] : needs.weights) {
    if (!keys.contains(key)) missing += static_cast<int64_t>(bytes);
  }
  return missing;
}

// Bytes for the missing weight whose making takes most.
int64_t MakingBytes(const backends::MemoryNeeds& needs,
                    absl::Span<const weights::WeightInfo> held) {
  absl::flat_hash_set<absl::string_view> keys;
  for (const weights::WeightInfo& result : held) keys.insert(result.key);
  int64_t most = 0;
  for (const auto& [key, bytes] : needs.making) {
    if (!keys.contains(key)) most = std::max(most, static_cast<int64_t>(bytes));
  }
  return most;
}

// Memory that the graph takes beside the report's, with a picture's state of so many bytes.
MemoryPrediction MoreOf(const backends::MemoryNeeds& needs,
                        absl::Span<const weights::WeightInfo> held, const MemoryReport& report,
                        int64_t state) {
  return {
      .weights = MissingWeights(needs, held),
      .arena = std::max<int64_t>(static_cast<int64_t>(needs.arena_bytes) - report.arena_bytes, 0),
      .state = std::max<int64_t>(state - report.state_bytes, 0),
      .executables = static_cast<int64_t>(needs.executable_bytes)};
}

std::string Text(const MemoryPrediction& more, int64_t making) {
  return absl::StrCat("needs ", more.total() + making, " bytes more of memory (", more.weights,
                      " of weights, ", making, " while they are made, ", more.arena,
                      " of intermediates, ", more.state, " of a picture's state, ",
                      more.executables, " of its own)");
}

}  // namespace

void MemoryTally::Add(const std::string& id, const backends::MemoryNeeds& needs) {
  std::string keys;
  for (const auto& [key, bytes] : needs.weights) {
    absl::StrAppend(&keys, key, " ");
    if (weights_.insert(key).second) prediction_.weights += static_cast<int64_t>(bytes);
  }
  prediction_.arena = std::max(prediction_.arena, static_cast<int64_t>(needs.arena_bytes));
  if (executables_.emplace(id, std::move(keys)).second) {
    prediction_.executables += static_cast<int64_t>(needs.executable_bytes);
  }
}

void MemoryTally::AddState(int64_t bytes) {
  prediction_.state = std::max(prediction_.state, bytes);
}

int64_t MemoryBudget::BytesOf(int64_t configured, int64_t available) {
  const int64_t left = std::max<int64_t>(available - kReserve, 0);
  return configured > 0 ? std::min(configured, left) : left;
}

void MemoryBudget::Open(Limits limits) {
  absl::MutexLock lock(&mutex_);
  limits_ = std::move(limits);
  open_ = true;
}

absl::Status MemoryBudget::Check(const compiler::GraphLabel& label,
                                 const backends::MemoryNeeds& needs,
                                 absl::Span<const weights::WeightInfo> held,
                                 const MemoryReport& report, int64_t available) {
  absl::MutexLock lock(&mutex_);
  if (!open_) return absl::OkStatus();
  const int64_t state = StateOf(label);
  absl::Status fits = CheckFits(label, needs, held, report, available, state);
  const bool is_needed = !pipeline::IsDispensable(label.component, label.part, label.rows);
  if (IsConfigured(label) && (is_needed || fits.ok())) {
    tally_.Add(label.ToText(), needs);
    tally_.AddState(state);
  }
  return fits;
}

absl::Status MemoryBudget::CheckLane(const compiler::GraphLabel& label, int64_t bytes,
                                     const MemoryReport& report, int64_t available) {
  absl::MutexLock lock(&mutex_);
  if (!open_) return absl::OkStatus();
  return CheckFits(label, {}, {}, report, available, report.state_bytes + bytes);
}

absl::Status MemoryBudget::CheckFits(const compiler::GraphLabel& label,
                                     const backends::MemoryNeeds& needs,
                                     absl::Span<const weights::WeightInfo> held,
                                     const MemoryReport& report, int64_t available,
                                     int64_t state) const {
  const MemoryPrediction more = MoreOf(needs, held, report, state);
  const int64_t making = MakingBytes(needs, held);
  const int64_t now = report.on_device() + report.on_host();
  const std::string wanted = absl::StrCat(label.ToText(), " ", Text(more, making));
  if (now + more.total() + making > limits_.bytes) {
    return WithMissingBytes(
        OutOfMemoryError(absl::StrCat(wanted, "; ", now, " of ", limits_.bytes, " are held")),
        more.total() + making, limits_.bytes - now);
  }
  if (more.total() + making + kReserve > available) {
    return WithMissingBytes(
        OutOfMemoryError(absl::StrCat(
            wanted, ", and ", report.devices.empty() ? "the machine" : report.devices[0].name,
            " has ", available, " left, of which ", kReserve, " stay free")),
        more.total() + making, available - kReserve);
  }
  return absl::OkStatus();
}

int64_t MemoryBudget::StateOf(const compiler::GraphLabel& label) const {
  if (label.width == 0) return 0;
  return limits_.state_bytes({label.width, label.height, label.frames}, label.rows);
}

int64_t MemoryBudget::SpareBeside(const compiler::GraphLabel& label,
                                  const backends::MemoryNeeds& needs,
                                  absl::Span<const weights::WeightInfo> held,
                                  const MemoryReport& report, int64_t available) const {
  absl::MutexLock lock(&mutex_);
  if (!open_) return 0;
  const MemoryPrediction more = MoreOf(needs, held, report, StateOf(label));
  const int64_t left =
      std::min(limits_.bytes - report.on_device() - report.on_host(), available - kReserve) -
      more.total() - MakingBytes(needs, held);
  return left - limits_.bytes / 8;
}

bool MemoryBudget::IsConfigured(const compiler::GraphLabel& label) const {
  if (label.width == 0 && label.height == 0) return true;
  return std::any_of(limits_.configured.begin(), limits_.configured.end(),
                     [&](const Bucket& bucket) { return IsOf(bucket, label); });
}

int64_t MemoryBudget::bytes() const {
  absl::MutexLock lock(&mutex_);
  return limits_.bytes;
}

MemoryPrediction MemoryBudget::predicted() const {
  absl::MutexLock lock(&mutex_);
  return tally_.prediction();
}

}  // namespace latentd::engine
