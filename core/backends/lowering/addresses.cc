#include "core/backends/lowering/addresses.h"

#include <utility>

#include "core/base/status_macros.h"

namespace latentd::backends::lowering {

Addresses AddressesIn(char* arena, const BoundProgram& bound, const graph::MemoryPlan& memory) {
  const auto at = [&](int value) { return value < 0 ? nullptr : arena + memory.offsets[value]; };
  Addresses addresses;
  for (int value : bound.values.of_storage) addresses.storages.push_back(at(value));
  for (int value : bound.values.of_workspace) addresses.workspaces.push_back(at(value));
  addresses.packed.resize(bound.needs.size());
  return addresses;
}

Addresses WithPorts(Addresses addresses, const Program& program, absl::Span<char* const> inputs,
                    absl::Span<char* const> outputs) {
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (storage.place == Place::kInput) addresses.storages[i] = inputs[storage.index];
    if (storage.place == Place::kOutput) addresses.storages[i] = outputs[storage.index];
  }
  return addresses;
}

absl::StatusOr<std::vector<weights::WeightRef>> HoldWeights(
    const BoundProgram& bound, const weights::WeightSet& weights,
    absl::FunctionRef<const void*(const device::ConstBuffer&)> address_of, Addresses& addresses) {
  std::vector<weights::WeightRef> results;
  for (const WeightUse& use : WeightUses(bound)) {
    ASSIGN_OR_RETURN(weights::WeightRef held,
                     weights.store().Get(bound.recipes[use.recipe].graph, weights, use.format));
    const void* address = address_of(*held);
    if (use.instruction >= 0) {
      addresses.packed[use.instruction] = address;
    } else {
      addresses.storages[use.storage] = static_cast<char*>(const_cast<void*>(address));
    }
    results.push_back(std::move(held));
  }
  return results;
}

}  // namespace latentd::backends::lowering
