#include "core/compiler/artifact_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"

namespace latentd::compiler {
namespace {

constexpr cache::Kind kKind = cache::Kind::kArtifact;

ArtifactFiles::Result ResultOf(const absl::Status& failure) {
  if (absl::IsDataLoss(failure)) return ArtifactFiles::Result::kCorrupt;
  const bool other_version = absl::IsFailedPrecondition(failure);
  return other_version ? ArtifactFiles::Result::kIncompatible : ArtifactFiles::Result::kMiss;
}

}  // namespace

ArtifactFiles::Found ArtifactFiles::Find(const GraphDefinition& graph) {
  if (disk_ == nullptr) return {};
  absl::StatusOr<ArtifactPointer> artifact =
      Parse(graph.key, graph.graph.get(), disk_->Read(kKind, graph.key.ToText()));
  if (artifact.ok()) return {Result::kDisk, *std::move(artifact), ""};
  if (absl::IsNotFound(artifact.status())) return WhyNot(graph.key);
  return {ResultOf(artifact.status()), nullptr, std::string(artifact.status().message())};
}

absl::StatusOr<ArtifactPointer> ArtifactFiles::Check(const GraphKey& key,
                                                     const graph::Graph* declared) const {
  if (disk_ == nullptr) {
    return WithReason(absl::NotFoundError("there is no disk cache"), "NO_DISK_CACHE");
  }
  return Parse(key, declared, disk_->Verify(kKind, key.ToText()));
}

absl::StatusOr<ArtifactPointer> ArtifactFiles::Parse(
    const GraphKey& key, const graph::Graph* declared,
    const absl::StatusOr<cache::Entry>& entry) const {
  if (!entry.ok()) return entry.status();
  // From a copy, so that nobody who cuts the file short does it under the parser.
  absl::StatusOr<ArtifactPointer> artifact = ParsePayload(key, std::string(entry->payload()));
  absl::Status status = artifact.status();
  if (status.ok() && declared != nullptr) status = CheckSamePorts(*declared, *(*artifact)->graph);
  if (status.ok()) return artifact;
  if (!absl::IsDataLoss(status)) return status;
  const absl::Status aside = SetAside(key);
  return absl::DataLossError(absl::StrCat(
      status.message(),
      aside.ok() ? "; it is in quarantine now" : "; it cannot be set aside: ", aside.message()));
}

// Another build's or machine's artifact of the same graph is the reason that operators look for.
ArtifactFiles::Found ArtifactFiles::WhyNot(const GraphKey& key) const {
  for (const cache::EntryInfo& info : disk_->List(kKind)) {
    const GraphKey other = GraphKey::FromText(info.key);
    if (other.other_form.has_value() || other == key || other.graph != key.graph) continue;
    return {Result::kIncompatible, nullptr,
            absl::StrCat("what is on disk was made for ", Difference(other, key))};
  }
  return {};
}

absl::StatusOr<cache::KeyLock> ArtifactFiles::Lock(const GraphKey& key, absl::Duration wait,
                                                   const std::function<bool()>& stop) const {
  return disk_->LockKey(kKind, key.ToText(), wait, stop);
}

absl::Status ArtifactFiles::Write(const Artifact& artifact) {
  if (disk_ == nullptr) {
    return WithReason(absl::FailedPreconditionError("there is no disk cache"), "NO_DISK_CACHE");
  }
  return disk_->Write(kKind, artifact.key.ToText(), WritePayload(artifact));
}

absl::Status ArtifactFiles::SetAside(const GraphKey& key) const {
  return disk_ == nullptr ? absl::OkStatus() : disk_->SetAside(kKind, key.ToText());
}

absl::Status ArtifactFiles::Remove(const GraphKey& key) {
  return disk_ == nullptr ? absl::OkStatus() : disk_->Remove(kKind, key.ToText());
}

absl::Status ArtifactFiles::SetPinned(const GraphKey& key, bool pinned) {
  return disk_ == nullptr ? absl::OkStatus() : disk_->SetPinned(kKind, key.ToText(), pinned);
}

bool ArtifactFiles::IsPinned(const GraphKey& key) const {
  return disk_ != nullptr && disk_->IsPinned(kKind, key.ToText());
}

bool ArtifactFiles::Contains(const GraphKey& key) const {
  return disk_ != nullptr && disk_->Contains(kKind, key.ToText());
}

std::vector<cache::EntryInfo> ArtifactFiles::List() const {
  return disk_ == nullptr ? std::vector<cache::EntryInfo>() : disk_->List(kKind);
}

std::optional<cache::EntryInfo> ArtifactFiles::FindInfo(const GraphKey& key) const {
  return disk_ == nullptr ? std::nullopt : disk_->Find(kKind, key.ToText());
}

std::optional<cache::EntryInfo> ArtifactFiles::FindInfo(const Digest& id) const {
  for (cache::EntryInfo& info : List()) {
    if (info.digest == id) return std::move(info);
  }
  return std::nullopt;
}

absl::StatusOr<PayloadHead> ArtifactFiles::Describe(const GraphKey& key) const {
  const Digest id = key.ToDigest();
  {
    absl::MutexLock lock(&mutex_);
    if (const auto known = described_.find(id); known != described_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(const cache::Entry entry, disk_->Peek(kKind, key.ToText()));
  ASSIGN_OR_RETURN(PayloadHead head, ParsePayloadHead(entry.payload()));
  absl::MutexLock lock(&mutex_);
  if (described_.size() >= kMaxDescribed) described_.clear();
  described_[id] = head;
  return head;
}

}  // namespace latentd::compiler
