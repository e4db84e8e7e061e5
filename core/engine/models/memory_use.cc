#include "core/engine/models/memory_use.h"

#include <malloc.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/process/memory_limit.h"
#include "core/base/process/process_stat.h"
#include "core/metrics/merge.h"

namespace latentd::engine {
namespace {

constexpr char kUnet[] = "unet";
// Labels of where a metric's bytes lie: all on the host, if the device has no memory of its own.
using metrics::kDevice;
using metrics::kHost;
constexpr size_t kMostText = size_t{1} << 16;  // bytes read of a file below /proc/self

using Users = std::map<std::string, std::set<std::string>>;  // by component, as weights name it

// Users of graphs, by the component that their weights have.
Users UsersOf(absl::Span<const compiler::GraphStatus> graphs) {
  Users users;
  for (const compiler::GraphStatus& graph : graphs) {
    if (graph.state != compiler::GraphState::kReady) continue;
    absl::string_view component = graph.label.component;
    if (absl::StartsWith(component, "vae_")) component = "vae";
    users[std::string(component)].insert(graph.users.begin(), graph.users.end());
  }
  return users;
}

// Users of graphs that have got no weights themselves.
Users SharersOf(absl::Span<const weights::WeightInfo> held,
                absl::Span<const compiler::GraphStatus> graphs) {
  Users sharers = UsersOf(graphs);
  for (const weights::WeightInfo& result : held) {
    for (const std::string& component : result.components) {
      for (const std::string& set : result.sets) sharers[component].erase(set);
    }
  }
  return sharers;
}

// Component and model; the model only of UNets, since each model has its own.
using Place = std::pair<std::string, std::string>;

std::set<Place> PlacesOf(const weights::WeightInfo& result) {
  std::set<Place> places;
  for (const std::string& component : result.components) {
    // Graphs of constants alone have no component.
    if (component != kUnet) places.insert({component.empty() ? "constants" : component, ""});
    for (const std::string& set : result.sets) {
      if (component == kUnet) places.insert({component, set});
    }
  }
  return places;
}

void AddUsers(const std::set<std::string>& users, std::vector<std::string>& all) {
  std::set<std::string> together(all.begin(), all.end());
  together.insert(users.begin(), users.end());
  all.assign(together.begin(), together.end());
}

std::string ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMostText);
  return text.ok() ? *std::move(text) : std::string();
}

// The arena is as large as the largest graph that is loaded needs.
void AddGraphs(const compiler::GraphStore::Totals& totals, MemoryReport& report) {
  report.arena_bytes = totals.arena_bytes;
  report.executable_bytes = totals.executable_bytes;
  report.artifact_bytes = totals.artifact_bytes;
  report.definition_bytes = totals.definition_bytes;
}

// The report once those have left: of their weights stays what `needs` reads too.
void TakeAway(const compiler::Eviction& leaving, const backends::MemoryNeeds& needs,
              absl::Span<const weights::WeightInfo> held, MemoryReport& report) {
  for (const weights::WeightInfo& result : held) {
    if (!leaving.weights.contains(result.data) || needs.weights.contains(result.key)) continue;
    const auto bytes = static_cast<int64_t>(result.bytes);
    report.weight_bytes -= bytes;
    // Pages of a file are available as it is.
    if (!result.mapped) report.available_bytes += bytes;
  }
  report.arena_bytes -= leaving.arena_bytes;
  report.executable_bytes -= leaving.executable_bytes;
  report.artifact_bytes -= leaving.artifact_bytes;
  report.available_bytes += leaving.arena_bytes + leaving.executable_bytes + leaving.artifact_bytes;
  if (leaving.with_users) report.available_bytes += std::exchange(report.state_bytes, 0);
}

// Drops memory that the host holds, and a device with memory of its own does not.
void DropHostParts(MemoryReport& report) {
  report.result_bytes = report.artifact_bytes = 0;
  report.definition_bytes = report.waiting_image_bytes = 0;
}

// Artifacts, images and results are the host's, whatever the device.
absl::Status CheckHost(const compiler::GraphLabel& label) {
  const auto has_room = [] { return MeasureAvailableMemory().bytes >= MemoryBudget::kReserve; };
  if (has_room()) return absl::OkStatus();
  malloc_trim(0);
  if (has_room()) return absl::OkStatus();
  return OutOfMemoryError(absl::StrCat(label.ToText(), " needs memory of the host too, which has ",
                                       MeasureAvailableMemory().bytes, " left, of which ",
                                       MemoryBudget::kReserve, " stay free"));
}

// Adds the figures of malloc and the kernel for this process.
void AddProcess(MemoryReport& report) {
  const struct mallinfo2 heap = mallinfo2();
  report.allocator_bytes = static_cast<int64_t>(heap.arena + heap.hblkhd);
  report.allocator_free_bytes = static_cast<int64_t>(heap.fordblks);
  report.resident_bytes = ResidentBytes().value_or(0);
  report.peak_resident_bytes = ParsePeakResident(ReadText("/proc/self/status"));
}

void Set(metrics::Registry& registry, const metrics::Family& family,
         const metrics::LabelValues& labels, int64_t bytes) {
  registry.GetGauge(family, labels).Set(static_cast<double>(bytes));
}

// By kind; `first` is the label before that.
void Set(metrics::Registry& registry, const metrics::Family& family, const std::string& first,
         const MemoryPrediction& bytes) {
  Set(registry, family, {first, "weights"}, bytes.weights);
  Set(registry, family, {first, "arena"}, bytes.arena);
  Set(registry, family, {first, "state"}, bytes.state);
  Set(registry, family, {first, "executables"}, bytes.executables);
}

void ShowHost(const MemoryReport& report, metrics::Registry& registry) {
  const metrics::Family& held = metrics::kMemoryBytes;
  Set(registry, held, {kHost, "artifacts"}, report.artifact_bytes);
  Set(registry, held, {kHost, "results"}, report.result_bytes);
  Set(registry, held, {kHost, "graph_definitions"}, report.definition_bytes);
  Set(registry, held, {kHost, "waiting_images"}, report.waiting_image_bytes);
  Set(registry, metrics::kMemoryAvailable, {kHost}, report.host_available_bytes);
  Set(registry, metrics::kPinnedMemory, {}, report.pinned_bytes);
}

}  // namespace

void AddWeights(absl::Span<const weights::WeightInfo> held,
                absl::Span<const compiler::GraphStatus> graphs, MemoryReport& report) {
  const Users sharers = SharersOf(held, graphs);
  std::map<Place, ComponentMemory> components;
  for (const weights::WeightInfo& result : held) {
    const auto bytes = static_cast<int64_t>(result.bytes);
    report.weight_bytes += bytes;
    if (result.mapped) report.mapped_bytes += bytes;
    const std::set<Place> places = PlacesOf(result);
    std::set<std::string> users(result.sets.begin(), result.sets.end());
    for (const std::string& component : result.components) {
      const auto more = sharers.find(component);
      if (more != sharers.end()) users.insert(more->second.begin(), more->second.end());
    }
    for (const Place& place : places) {
      ComponentMemory& component = components[place];
      std::tie(component.component, component.model) = place;
      component.bytes += bytes;
      if (places.size() > 1 || users.size() > 1) component.shared_bytes += bytes;
      AddUsers(users, component.users);
    }
  }
  for (auto& [place, component] : components) report.weights.push_back(std::move(component));
}

int64_t ParsePeakResident(absl::string_view status) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "VmHWM:")) continue;
    int64_t kibibytes = 0;
    absl::ConsumeSuffix(&line, "kB");
    return absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kibibytes) ? kibibytes << 10 : 0;
  }
  return 0;
}

void MemoryUse::AddPictures(MemoryReport& report) const {
  report.state_bytes = parts_.loop.state_bytes(parts_.device);
  if (parts_.device != parts_.loop.first_device()) return;  // they are all devices'
  report.result_bytes = parts_.loop.result_bytes();
  report.waiting_image_bytes = parts_.loop.input_bytes();
}

void MemoryUse::AddDevice(MemoryReport& report) const {
  AvailableMemory available = device().Available().value_or(AvailableMemory());
  report.available_bytes = report.host_available_bytes = available.bytes;
  if (device().SharesHostMemory()) return;
  report.host_available_bytes = MeasureAvailableMemory().bytes;
  const device::DeviceMemory memory = device().Memory();
  report.pinned_bytes = memory.pinned;
  const int64_t held = report.on_device();
  const int64_t other = memory.total - memory.free - memory.idle - held;
  report.devices.push_back({.name = std::move(available.source),
                            .total_bytes = memory.total,
                            .free_bytes = memory.free,
                            .held_bytes = held,
                            .idle_bytes = memory.idle,
                            .other_bytes = std::max<int64_t>(other, 0)});
}

MemoryReport MemoryUse::Report() const {
  MemoryReport report;
  const std::vector<compiler::GraphStatus> graphs = parts_.stores.graphs.Declared();
  AddWeights(parts_.stores.weights.List(), graphs, report);
  report.kept_tensor_bytes = static_cast<int64_t>(parts_.stores.weights.kept_tensors().bytes());
  AddGraphs(parts_.stores.graphs.totals(), report);
  AddPictures(report);
  AddProcess(report);
  AddDevice(report);
  report.budget_bytes = parts_.budget.bytes();
  report.predicted = parts_.budget.predicted();
  return report;
}

absl::Status MemoryUse::CheckFits(const compiler::GraphLabel& label,
                                  const backends::MemoryNeeds& needs,
                                  const compiler::Eviction& leaving) const {
  MemoryReport last;
  const absl::Status fits =
      CheckReport(label, needs, leaving, [&](auto held, const MemoryReport& report) {
        last = report;
        return parts_.budget.Check(label, needs, held, report, report.available_bytes);
      });
  if (fits.ok() && !leaving.only_asked) LimitTensors(label, needs, last);
  return fits;
}

void MemoryUse::LimitTensors(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                             const MemoryReport& report) const {
  if (!parts_.keeps_tensors || device().SharesHostMemory()) return;
  weights::WeightStore& store = parts_.stores.weights;
  const int64_t available = report.available_bytes;
  int64_t spare = parts_.budget.SpareBeside(label, needs, {}, report, available);
  // As CheckReport: only where it lacks is it worth to find those of its weights that are held.
  if (spare < 0) spare = parts_.budget.SpareBeside(label, needs, store.List(), report, available);
  const int64_t limit = std::max<int64_t>(report.kept_tensor_bytes + spare, 0);
  store.kept_tensors().SetLimit(static_cast<size_t>(limit));
}

void MemoryUse::DropTensors(absl::Span<const weights::WeightInfo> held, MemoryReport& report,
                            Check check) const {
  weights::KeptTensors& kept = parts_.stores.weights.kept_tensors();
  const int64_t part = report.kept_tensor_bytes / 8 + 1;
  int64_t dropped = 0;
  do {
    dropped = static_cast<int64_t>(kept.Drop(static_cast<size_t>(part)));
    report.kept_tensor_bytes -= dropped;
    report.available_bytes += dropped;
  } while (dropped > 0 && !check(held, report).ok());
}

absl::Status MemoryUse::AskLaneRoom(const pipeline::LaneMemory& lane) const {
  const auto check = [&](const compiler::Eviction& leaving) {
    return CheckReport(lane.label, {}, leaving, [&](auto, const MemoryReport& report) {
      return parts_.budget.CheckLane(lane.label, lane.bytes, report, report.available_bytes);
    });
  };
  return lane.is_least ? parts_.stores.graphs.MakeRoom(lane.label, check) : check({});
}

absl::Status MemoryUse::CheckReport(const compiler::GraphLabel& label,
                                    const backends::MemoryNeeds& needs,
                                    const compiler::Eviction& leaving, Check check) const {
  MemoryReport report;
  report.weight_bytes = static_cast<int64_t>(parts_.stores.weights.bytes_held());
  report.kept_tensor_bytes = static_cast<int64_t>(parts_.stores.weights.kept_tensors().bytes());
  AddGraphs(parts_.stores.graphs.totals(), report);
  AddPictures(report);
  compiler::Eviction leaves = leaving;
  ASSIGN_OR_RETURN(AvailableMemory available, device().Available());
  report.available_bytes = available.bytes;
  if (!device().SharesHostMemory()) {
    RETURN_IF_ERROR(CheckHost(label));
    DropHostParts(report);
    leaves.artifact_bytes = 0;
    report.devices.push_back({.name = std::move(available.source)});
  }
  // If it fits with none of its weights held, it fits; only else are the held ones worth finding.
  absl::Status fits = check({}, report);
  if (fits.ok()) return fits;
  // malloc keeps what was freed, and the system counts it as used.
  malloc_trim(0);
  ASSIGN_OR_RETURN(available, device().Available());
  report.available_bytes = available.bytes;
  const std::vector<weights::WeightInfo> held = parts_.stores.weights.List();
  TakeAway(leaves, needs, held, report);
  fits = check(held, report);
  if (fits.ok() || report.kept_tensor_bytes == 0) return fits;
  MemoryReport without = report;
  without.available_bytes += std::exchange(without.kept_tensor_bytes, 0);
  fits = check(held, without);
  if (fits.ok() && !leaving.only_asked) DropTensors(held, report, check);
  return fits;
}

void MemoryUse::Show(metrics::Registry& registry) const {
  const MemoryReport report = Report();
  ShowHost(report, registry);
  const char* place = report.devices.empty() ? kHost : kDevice;
  const MemoryPrediction held = {.weights = report.weight_bytes,
                                 .arena = report.arena_bytes,
                                 .state = report.state_bytes,
                                 .executables = report.executable_bytes};
  Set(registry, metrics::kMemoryBytes, place, held);
  Set(registry, metrics::kMemoryBytes, {place, "kept_tensors"}, report.kept_tensor_bytes);
  Set(registry, metrics::kDeviceMemoryHeld, parts_.label, held);
  Set(registry, metrics::kDeviceMemoryHeld, {parts_.label, "kept_tensors"},
      report.kept_tensor_bytes);
  Set(registry, metrics::kMemoryPredicted, place, report.predicted);
  Set(registry, metrics::kMemoryBudget, {place}, report.budget_bytes);
  if (report.devices.empty()) return;
  Set(registry, metrics::kMemoryAvailable, {kDevice}, report.available_bytes);
  Set(registry, metrics::kDeviceMemoryTotal, {parts_.label}, report.devices[0].total_bytes);
  Set(registry, metrics::kDeviceMemoryFree, {parts_.label}, report.devices[0].free_bytes);
}

}  // namespace latentd::engine
