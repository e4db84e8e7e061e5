#include "core/compiler/disk_artifacts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/compiler/artifact.h"

namespace latentd::compiler {

using cache::Kind;

DiskArtifacts::Found DiskArtifacts::Find(const GraphKey& key) {
  if (disk_ == nullptr) return {};
  absl::StatusOr<std::string> bytes = Parsed(key, disk_->Read(Kind::kArtifact, key.ToText()));
  if (bytes.ok()) {
    const absl::Duration compile_time = ParseArtifact(*bytes)->compile_time;
    return {Result::kDisk, *std::move(bytes), compile_time, ""};
  }
  if (absl::IsNotFound(bytes.status())) return WhyNot(key);
  const Result result = absl::IsDataLoss(bytes.status()) ? Result::kCorrupt : Result::kMiss;
  return {result, "", {}, std::string(bytes.status().message())};
}

absl::StatusOr<std::string> DiskArtifacts::Check(const GraphKey& key) const {
  if (disk_ == nullptr) {
    return WithReason(absl::NotFoundError("there is no disk cache"), "NO_DISK_CACHE");
  }
  return Parsed(key, disk_->Verify(Kind::kArtifact, key.ToText()));
}

// A copy, so that nobody who cuts the file short does it under a reader.
absl::StatusOr<std::string> DiskArtifacts::Parsed(const GraphKey& key,
                                                  const absl::StatusOr<cache::Entry>& entry) const {
  if (!entry.ok()) return entry.status();
  std::string bytes(entry->payload());
  const absl::StatusOr<Artifact> artifact = ParseArtifact(bytes);
  absl::Status status = artifact.status();
  if (status.ok() && artifact->key != key.ToText()) {
    status = absl::DataLossError(
        absl::StrCat("artifact: it was made for ", Difference(artifact->key, key)));
  }
  if (status.ok()) return bytes;
  const absl::Status aside = SetAside(key);
  return absl::DataLossError(absl::StrCat(
      status.message(),
      aside.ok() ? "; it is in quarantine now" : "; it cannot be set aside: ", aside.message()));
}

// Another build's or machine's artifact of the same graph is the reason that operators look for.
DiskArtifacts::Found DiskArtifacts::WhyNot(const GraphKey& key) const {
  for (const cache::EntryInfo& info : disk_->List(Kind::kArtifact)) {
    const std::optional<GraphKey> other = GraphKey::FromText(info.key);
    if (!other.has_value() || *other == key || other->graph != key.graph) continue;
    return {Result::kIncompatible,
            "",
            {},
            absl::StrCat("what is on disk was made for ", Difference(info.key, key))};
  }
  return {};
}

absl::StatusOr<cache::KeyLock> DiskArtifacts::Lock(const GraphKey& key, absl::Duration wait,
                                                   const std::function<bool()>& stop) const {
  return disk_->LockKey(Kind::kArtifact, key.ToText(), wait, stop);
}

absl::Status DiskArtifacts::Write(const GraphKey& key, const std::string& artifact) {
  if (disk_ == nullptr) {
    return WithReason(absl::FailedPreconditionError("there is no disk cache"), "NO_DISK_CACHE");
  }
  return disk_->Write(Kind::kArtifact, key.ToText(), artifact);
}

absl::Status DiskArtifacts::SetAside(const GraphKey& key) const {
  return disk_ == nullptr ? absl::OkStatus() : disk_->SetAside(Kind::kArtifact, key.ToText());
}

absl::Status DiskArtifacts::Remove(const GraphKey& key) {
  return disk_ == nullptr ? absl::OkStatus() : disk_->Remove(Kind::kArtifact, key.ToText());
}

absl::Status DiskArtifacts::SetPinned(const GraphKey& key, bool pinned) {
  if (disk_ == nullptr) return absl::OkStatus();
  return disk_->SetPinned(Kind::kArtifact, key.ToText(), pinned);
}

bool DiskArtifacts::IsPinned(const GraphKey& key) const {
  return disk_ != nullptr && disk_->IsPinned(Kind::kArtifact, key.ToText());
}

bool DiskArtifacts::Contains(const GraphKey& key) const {
  return disk_ != nullptr && disk_->Contains(Kind::kArtifact, key.ToText());
}

std::vector<cache::EntryInfo> DiskArtifacts::List() const {
  return disk_ == nullptr ? std::vector<cache::EntryInfo>() : disk_->List(Kind::kArtifact);
}

std::optional<cache::EntryInfo> DiskArtifacts::FindInfo(const GraphKey& key) const {
  return disk_ == nullptr ? std::nullopt : disk_->Find(Kind::kArtifact, key.ToText());
}

std::optional<cache::EntryInfo> DiskArtifacts::FindInfo(absl::string_view id) const {
  for (cache::EntryInfo& info : List()) {
    if (info.digest.ToString() == id) return std::move(info);
  }
  return std::nullopt;
}

DiskArtifacts::Description DiskArtifacts::Describe(const GraphKey& key) const {
  const Digest id = key.ToDigest();
  {
    absl::MutexLock lock(&mutex_);
    if (const auto known = described_.find(id); known != described_.end()) return known->second;
  }
  if (disk_ == nullptr) return {};
  const absl::StatusOr<cache::Entry> entry = disk_->Peek(Kind::kArtifact, key.ToText());
  if (!entry.ok()) return {.damage = std::string(entry.status().message())};
  const absl::StatusOr<Artifact> artifact = ParseArtifact(entry->payload());
  if (!artifact.ok()) return {.damage = std::string(artifact.status().message())};
  if (artifact->key != key.ToText()) return {.damage = "it holds the artifact of another graph"};
  const Description description = {GraphLabel::FromText(artifact->label).value_or(GraphLabel{}),
                                   artifact->compile_time, ""};
  absl::MutexLock lock(&mutex_);
  if (described_.size() >= kMaxDescribed) described_.clear();
  return described_[id] = description;
}

}  // namespace latentd::compiler
