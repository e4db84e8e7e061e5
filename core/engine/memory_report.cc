#include "core/engine/memory_report.h"

#include <malloc.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"
#include "core/base/process_stat.h"

namespace latentd::engine {
namespace {

constexpr char kUnet[] = "unet";
constexpr size_t kMostText = size_t{1} << 16;  // of a file below /proc/self

using Users = std::map<std::string, std::set<std::string>>;  // by component, as weights name it

// Of graphs, by the component that their weights have.
Users UsersOf(absl::Span<const compiler::GraphStatus> graphs) {
  Users users;
  for (const compiler::GraphStatus& graph : graphs) {
    if (graph.state != compiler::GraphState::kReady) continue;
    absl::string_view component = graph.label.component;
    if (absl::StartsWith(component, "vae_")) component = "vae";
    if (absl::StartsWith(component, kUnet)) component = kUnet;
    users[std::string(component)].insert(graph.users.begin(), graph.users.end());
  }
  return users;
}

// Those that use graphs and have got no weights themselves.
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

// As graphs are named: base and refiner have a UNet each.
std::set<std::string> ComponentsOf(const weights::WeightInfo& result) {
  std::set<std::string> names;
  for (const std::string& component : result.components) {
    // What is made of constants alone has none.
    if (component != kUnet) names.insert(component.empty() ? "constants" : component);
    for (const std::string& set : result.sets) {
      if (component == kUnet) names.insert(absl::StrCat(component, "_", set));
    }
  }
  return names;
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

}  // namespace

void AddWeights(absl::Span<const weights::WeightInfo> held,
                absl::Span<const compiler::GraphStatus> graphs, MemoryReport& report) {
  const Users sharers = SharersOf(held, graphs);
  std::map<std::string, ComponentMemory> components;
  for (const weights::WeightInfo& result : held) {
    const auto bytes = static_cast<int64_t>(result.bytes);
    report.weight_bytes += bytes;
    if (result.mapped) report.mapped_bytes += bytes;
    const std::set<std::string> names = ComponentsOf(result);
    std::set<std::string> users(result.sets.begin(), result.sets.end());
    for (const std::string& component : result.components) {
      const auto more = sharers.find(component);
      if (more != sharers.end()) users.insert(more->second.begin(), more->second.end());
    }
    for (const std::string& name : names) {
      ComponentMemory& component = components[name];
      component.component = name;
      component.bytes += bytes;
      if (names.size() > 1 || users.size() > 1) component.shared_bytes += bytes;
      AddUsers(users, component.users);
    }
  }
  for (auto& [name, component] : components) report.weights.push_back(std::move(component));
}

void AddGraphs(const compiler::GraphStore::Totals& totals, MemoryReport& report) {
  report.arena_bytes = totals.arena_bytes;
  report.executable_bytes = totals.executable_bytes;
  report.artifact_bytes = totals.artifact_bytes;
  report.definition_bytes = totals.definition_bytes;
}

void AddPictures(const PictureLoop& loop, const ColdRequests& cold, MemoryReport& report) {
  report.state_bytes = loop.state_bytes();
  report.result_bytes = loop.result_bytes();
  report.waiting_image_bytes = cold.image_bytes();
}

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
}

void AddProcess(MemoryReport& report) {
  const struct mallinfo2 heap = mallinfo2();
  report.allocator_bytes = static_cast<int64_t>(heap.arena + heap.hblkhd);
  report.allocator_free_bytes = static_cast<int64_t>(heap.fordblks);
  report.resident_bytes = ResidentBytes().value_or(0);
  report.peak_resident_bytes = ParsePeakResident(ReadText("/proc/self/status"));
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

}  // namespace latentd::engine
