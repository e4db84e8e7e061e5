#include "core/adapters/lora/merge_loras.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/delta_graph.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"

namespace latentd::adapters {
namespace {

using weights::Source;
using weights::WeightSet;

// A change of one weight, as a user wants it.
struct WantedChange {
  const Lora* lora;
  const WeightChange* change;
  double weight;  // the user's
};

double WeightOf(const WeightedLora& lora, absl::string_view name) {
  if (absl::StartsWith(name, "text_encoder_2/")) return lora.text_encoder_2;
  return absl::StartsWith(name, "text_encoder/") ? lora.text_encoder : lora.unet;
}

bool IsWithoutEffect(const WantedChange& wanted) {
  const auto& magnitude = wanted.change->magnitude;
  return wanted.weight == 0 && (!magnitude || magnitude->rule != Magnitude::Rule::kPeft);
}

using ChangesByWeight = std::map<std::string, std::vector<WantedChange>>;

ChangesByWeight Collect(absl::Span<const WeightedLora> loras) {
  ChangesByWeight changes;
  for (const WeightedLora& lora : loras) {
    for (const WeightChange& change : lora.lora->changes) {
      const WantedChange wanted = {lora.lora.get(), &change, WeightOf(lora, change.weight)};
      if (!IsWithoutEffect(wanted)) changes[change.weight].push_back(wanted);
    }
  }
  return changes;
}

// The delta of one change, in the weight's shape. The factor of one that LyCORIS' rule applies is
// outside of the magnitude.
absl::StatusOr<Source> DeltaFor(const Source& base, const WantedChange& wanted) {
  const auto& magnitude = wanted.change->magnitude;
  const bool outside = magnitude && magnitude->rule == Magnitude::Rule::kLycoris;
  ASSIGN_OR_RETURN(const Source delta, DeltaSource(*wanted.change, outside ? 1 : wanted.weight));
  return PaddedDelta(delta, base);
}

// In the order of their contents; one has no order, and is not read for it.
void SortByContent(std::vector<Source>& deltas) {
  if (deltas.size() < 2) return;
  std::vector<std::pair<std::string, Source>> named;
  for (Source& delta : deltas) {
    std::string name = DigestOf(delta.Content()).ToString();
    named.emplace_back(std::move(name), std::move(delta));
  }
  std::stable_sort(named.begin(), named.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(named.begin(), named.end(), deltas.begin(),
                 [](auto& pair) { return std::move(pair.second); });
}

absl::Status Named(const WantedChange& wanted, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("LoRA ", wanted.lora->name, ", weight ",
                                                  wanted.change->weight, ": ", status.message()));
}

absl::StatusOr<Source> WithSums(const Source& base, const std::vector<WantedChange>& changes) {
  std::vector<Source> deltas;
  for (const WantedChange& wanted : changes) {
    if (wanted.change->magnitude) continue;
    const absl::StatusOr<Source> delta = DeltaFor(base, wanted);
    RETURN_IF_ERROR(Named(wanted, delta.status()));
    deltas.push_back(*delta);
  }
  if (deltas.empty()) return base;
  SortByContent(deltas);
  absl::StatusOr<Source> sum = SumOf(base, deltas);
  RETURN_IF_ERROR(Named(changes.front(), sum.status()));
  return sum;
}

absl::StatusOr<Source> WithDora(const Source& running, const WantedChange& wanted) {
  ASSIGN_OR_RETURN(const Source delta, DeltaFor(running, wanted));
  return WithMagnitude(running, delta, *wanted.change->magnitude, wanted.weight);
}

absl::StatusOr<Source> Changed(const Source& base, const std::vector<WantedChange>& changes) {
  ASSIGN_OR_RETURN(Source running, WithSums(base, changes));
  for (const WantedChange& wanted : changes) {
    if (!wanted.change->magnitude) continue;
    absl::StatusOr<Source> next = WithDora(running, wanted);
    RETURN_IF_ERROR(Named(wanted, next.status()));
    running = *std::move(next);
  }
  return running;
}

absl::StatusOr<Source> ChangedIn(const WeightSet& base, const std::string& name,
                                 const std::vector<WantedChange>& changes) {
  const absl::StatusOr<Source> weight = base.Find(name);
  RETURN_IF_ERROR(Named(changes.front(), weight.status()));
  return Changed(*weight, changes);
}

// Worth starting for so many weights, of which each takes some ten microseconds.
int ThreadsFor(size_t changes) {
  constexpr size_t kWorthAThread = 64;
  const auto most = static_cast<size_t>(std::min(UsableCpus(), weights::kMostReaders));
  return static_cast<int>(std::clamp<size_t>(changes / kWorthAThread, 1, most));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const WeightSet>> MergeLoras(std::shared_ptr<const WeightSet> base,
                                                            absl::Span<const WeightedLora> loras) {
  const ChangesByWeight changes = Collect(loras);
  std::vector<const ChangesByWeight::value_type*> each;
  for (const auto& change : changes) each.push_back(&change);
  std::vector<absl::StatusOr<Source>> changed(each.size(), absl::UnknownError(""));
  SplitWorkOn(ThreadsFor(each.size()), static_cast<int>(each.size()), [&](int i) {
    const auto& [name, wanted] = *each[static_cast<size_t>(i)];
    changed[static_cast<size_t>(i)] = ChangedIn(*base, name, wanted);
  });
  weights::SourceMap overlay;
  for (size_t i = 0; i < each.size(); ++i) {
    RETURN_IF_ERROR(changed[i].status());
    overlay.emplace(each[i]->first, *std::move(changed[i]));
  }
  if (overlay.empty()) return base;
  std::string name = base->name();
  return WeightSet::Over(std::move(base), std::move(overlay), std::move(name));
}

}  // namespace latentd::adapters
