// Graphs and memory of all devices of a DevicePool, for operators: a graph is shown once, and what
// is asked for is done on every device that knows it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/graph_admin.h"

namespace latentd::engine {

class PoolGraphAdmin : public GraphAdmin {
 public:
  struct Device {
    std::string name;    // in messages
    GraphAdmin& graphs;  // outlives this
  };
  // REQUIRES: there are some, and they are equal: a graph has the same id on each.
  explicit PoolGraphAdmin(std::vector<Device> devices);

  absl::StatusOr<std::vector<GraphEntry>> List(const GraphSelector& selector) const override;
  absl::StatusOr<GraphEntry> Find(const std::string& id) const override;
  // On one device after the other: what the first has compiled the others take from the disk cache,
  // if there is one. Tells of each graph once for each device.
  absl::StatusOr<WarmOutcome> Warm(
      const GraphSelector& selector, bool dry_run,
      const std::function<bool(const WarmProgress&)>& progress) override;
  // Save and Export take each graph from one device that has it compiled.
  absl::StatusOr<std::vector<EntryResult>> Save(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Load(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Verify(const GraphSelector& selector) override;
  absl::StatusOr<std::vector<EntryResult>> Evict(const GraphSelector& selector, CacheTier tier,
                                                 bool force) override;
  absl::StatusOr<std::vector<EntryResult>> SetPinned(const GraphSelector& selector,
                                                     bool pinned) override;
  absl::Status Export(const GraphSelector& selector,
                      const std::function<bool(std::string artifact)>& take) override;
  absl::StatusOr<EntryResult> Import(std::string artifact) override;
  MemoryReport memory() const override;

 private:
  // By device: nothing where it knows none of what is meant.
  using Parts = std::vector<std::optional<GraphSelector>>;
  enum class Sizes : uint8_t { kKnown, kAny };
  // Parts of the selector known to each device; of its buckets those that it has, or any. Error of
  // the first device for an id or bucket that none knows.
  absl::StatusOr<Parts> Split(const GraphSelector& selector, Sizes sizes) const;
  absl::Status AddId(const std::string& id, Parts& parts) const;
  absl::Status AddBucket(pipeline::Size bucket, Parts& parts) const;
  // The selected graphs of each device, in the devices' order.
  absl::StatusOr<std::vector<std::vector<GraphEntry>>> ListAll(const GraphSelector& selector) const;
  // The selected graphs, each for one device; if some are compiled on none, these alone.
  absl::StatusOr<Parts> SplitToCopy(const GraphSelector& selector) const;

  using Verb = absl::FunctionRef<absl::StatusOr<std::vector<EntryResult>>(GraphAdmin&,
                                                                          const GraphSelector&)>;
  absl::StatusOr<std::vector<EntryResult>> ForEachDevice(const Parts& parts, Verb verb);

  const std::vector<Device> devices_;
  std::vector<std::string> names_;
};

}  // namespace latentd::engine
