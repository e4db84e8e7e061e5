#include "core/engine/admin/local_adapter_admin.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::engine {
namespace {

using pipeline::AdapterFacts;
using pipeline::AdapterSets;

bool HasName(const std::vector<AdapterFacts>& all, const std::string& name) {
  return absl::c_any_of(all, [&](const AdapterFacts& facts) { return facts.name == name; });
}

absl::Status NoSuchAdapterError(const std::string& name) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("there is no adapter ", Excerpt(name),
                                       " below --adapters: `latent adapters` lists those that "
                                       "there are")),
      "NO_SUCH_ADAPTER");
}

}  // namespace

absl::StatusOr<std::vector<AdapterStatus>> LocalAdapterAdmin::List() {
  RETURN_IF_ERROR(devices_.CheckOpen());
  std::vector<AdapterStatus> list;
  AdapterSets* first = devices_.First().models.pipeline->adapters();
  if (first == nullptr) return list;
  RETURN_IF_ERROR(first->catalogue().Look());
  for (AdapterFacts& facts : first->catalogue().List()) {
    AdapterStatus& status = list.emplace_back(AdapterStatus{.facts = std::move(facts)});
    status.pinned = first->IsPinned(status.facts.name);
    for (const size_t i : devices_.Left()) {
      const AdapterSets::Use use =
          devices_[i].models.pipeline->adapters()->UseOf(status.facts.name);
      status.sets = std::max(status.sets, use.sets);
      status.loaded = status.loaded || use.loaded;
      status.last_use = std::max(status.last_use, use.last_use);
    }
  }
  return list;
}

absl::StatusOr<std::vector<AdapterSets*>> LocalAdapterAdmin::SetsOf(const std::string& name) const {
  RETURN_IF_ERROR(devices_.CheckOpen());
  std::vector<AdapterSets*> sets;
  for (const size_t i : devices_.Left()) {
    AdapterSets* const its = devices_[i].models.pipeline->adapters();
    if (its == nullptr || !HasName(its->catalogue().List(), name)) return NoSuchAdapterError(name);
    sets.push_back(its);
  }
  return sets;
}

absl::Status LocalAdapterAdmin::Load(const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<AdapterSets*> sets, SetsOf(name));
  adapters::Catalogue& catalogue = sets.front()->catalogue();
  ASSIGN_OR_RETURN(const AdapterFacts facts, catalogue.Find(name));
  if (facts.kind != pipeline::AdapterKind::kLora) return absl::OkStatus();  // it is read whole
  for (const std::string& model : facts.models) {
    RETURN_IF_ERROR(catalogue.Load(name, facts.stamp, model).status());
  }
  return absl::OkStatus();
}

absl::Status LocalAdapterAdmin::Evict(const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<AdapterSets*> sets, SetsOf(name));
  absl::Status evicted;
  for (AdapterSets* const its : sets) evicted.Update(its->Evict(name));
  return evicted;
}

absl::Status LocalAdapterAdmin::Pin(const std::string& name, bool pinned) {
  ASSIGN_OR_RETURN(const std::vector<AdapterSets*> sets, SetsOf(name));
  for (AdapterSets* const its : sets) its->SetPinned(name, pinned);
  return absl::OkStatus();
}

}  // namespace latentd::engine
