#include "core/backends/lowering/addresses.h"

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"

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
    const BoundProgram& bound, const weights::WeightSet& weights, int threads,
    absl::FunctionRef<const void*(const device::ConstBuffer&)> address_of, Addresses& addresses) {
  const std::vector<WeightUse> uses = WeightUses(bound);
  const auto get = [&](int i) {
    return weights.store().Get(bound.recipes[uses[i].recipe].graph, weights, uses[i].format);
  };
  std::vector<absl::StatusOr<weights::WeightRef>> results(uses.size(), absl::UnknownError(""));
  SplitWorkOn(threads, static_cast<int>(uses.size()), [&](int i) { results[i] = get(i); });
  std::vector<weights::WeightRef> held;
  for (size_t i = 0; i < uses.size(); ++i) {
    // Making weights in parallel takes more memory at a time than planned: retry it alone.
    if (absl::IsResourceExhausted(results[i].status())) results[i] = get(static_cast<int>(i));
    RETURN_IF_ERROR(results[i].status());
    const void* address = address_of(**results[i]);
    if (uses[i].instruction >= 0) {
      addresses.packed[uses[i].instruction] = address;
    } else {
      addresses.storages[uses[i].storage] = static_cast<char*>(const_cast<void*>(address));
    }
    held.push_back(*std::move(results[i]));
  }
  return held;
}

}  // namespace latentd::backends::lowering
