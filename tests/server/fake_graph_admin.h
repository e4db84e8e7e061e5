// A GraphAdmin that does what a test says. What it does is set before it is called.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::server {

class FakeGraphAdmin : public engine::GraphAdmin {
 public:
  using Results = absl::StatusOr<std::vector<engine::EntryResult>>;
  using Progress = std::function<bool(const engine::WarmProgress&)>;

  std::vector<engine::GraphEntry> entries;       // returned by List for any selection
  std::map<std::string, std::string> artifacts;  // by id, for Export
  std::function<absl::StatusOr<engine::WarmOutcome>(const engine::GraphSelector&, bool dry_run,
                                                    const Progress&)>
      on_warm;
  // For Save, Load, Verify, Evict and SetPinned: "save", "evict both forced", "unpin".
  std::function<Results(const std::string& verb, const engine::GraphSelector&)> on_act;
  std::function<absl::StatusOr<engine::EntryResult>(std::string)> on_import;
  std::function<void()> on_read;  // called by List and Find, and for FakeEngine's memory

  absl::StatusOr<std::vector<engine::GraphEntry>> List(
      const engine::GraphSelector&) const override {
    if (on_read) on_read();
    return entries;
  }
  absl::StatusOr<engine::GraphEntry> Find(const std::string& id) const override {
    if (on_read) on_read();
    for (const engine::GraphEntry& entry : entries) {
      if (entry.id == id) return entry;
    }
    return absl::NotFoundError(absl::StrCat("no graph ", id));
  }
  absl::StatusOr<engine::WarmOutcome> Warm(const engine::GraphSelector& selector, bool dry_run,
                                           const Progress& progress) override {
    return on_warm(selector, dry_run, progress);
  }
  Results Save(const engine::GraphSelector& selector) override { return on_act("save", selector); }
  Results Load(const engine::GraphSelector& selector) override { return on_act("load", selector); }
  Results Verify(const engine::GraphSelector& selector) override {
    return on_act("verify", selector);
  }
  Results Evict(const engine::GraphSelector& selector, engine::CacheTier tier,
                bool force) override {
    static constexpr const char* kTiers[] = {"memory", "disk", "both"};
    return on_act(absl::StrCat("evict ", kTiers[static_cast<int>(tier)], force ? " forced" : ""),
                  selector);
  }
  Results SetPinned(const engine::GraphSelector& selector, bool pinned) override {
    return on_act(pinned ? "pin" : "unpin", selector);
  }
  absl::Status Export(const engine::GraphSelector& selector,
                      const std::function<bool(std::string)>& take) override {
    for (const std::string& id : selector.ids) {
      const auto found = artifacts.find(id);
      if (found == artifacts.end()) return absl::FailedPreconditionError("gone meanwhile");
      if (!take(found->second)) break;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<engine::EntryResult> Import(std::string artifact) override {
    return on_import(std::move(artifact));
  }
};

}  // namespace latentd::server
