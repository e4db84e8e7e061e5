#include "core/compiler/artifact_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"

namespace latentd::compiler {

namespace {

// Parses a copy, so that the file is not cut short under the parser.
absl::StatusOr<ArtifactPointer> Parse(const GraphKey& key, const graph::Graph* declared,
                                      const cache::Entry& entry) {
  ASSIGN_OR_RETURN(ArtifactPointer artifact, ParsePayload(key, std::string(entry.payload())));
  if (declared != nullptr) RETURN_IF_ERROR(CheckSamePorts(*declared, *artifact->graph));
  return artifact;
}

}  // namespace

absl::StatusOr<StoredArtifact> ArtifactFiles::Read(const GraphDefinition& graph) {
  if (!available()) return absl::NotFoundError("there is no disk cache");
  absl::StatusOr<StoredArtifact> artifact = ReadSound(
      graph.key, graph.graph.get(), [&] { return disk_->Read(kKind, graph.key.ToText()); });
  return absl::IsNotFound(artifact.status()) ? WhyNot(graph.key) : std::move(artifact);
}

absl::StatusOr<StoredArtifact> ArtifactFiles::Check(const GraphKey& key,
                                                    const graph::Graph* declared) const {
  if (!available())
    return WithReason(absl::NotFoundError("there is no disk cache"), "NO_DISK_CACHE");
  return ReadSound(key, declared, [&] { return disk_->Verify(kKind, key.ToText()); });
}

absl::StatusOr<StoredArtifact> ArtifactFiles::ReadSound(const GraphKey& key,
                                                        const graph::Graph* declared,
                                                        ReadEntry read) const {
  while (true) {
    ASSIGN_OR_RETURN(const cache::Entry entry, read());
    absl::StatusOr<ArtifactPointer> artifact = Parse(key, declared, entry);
    if (artifact.ok()) return StoredArtifact{*std::move(artifact), entry.payload_digest()};
    if (!absl::IsDataLoss(artifact.status())) return artifact.status();
    const absl::Status aside = SetAside(key, entry.payload_digest());
    if (absl::IsAborted(aside)) continue;
    return absl::DataLossError(absl::StrCat(
        artifact.status().message(),
        aside.ok() ? "; it is in quarantine now" : "; it cannot be set aside: ", aside.message()));
  }
}

// Another build's or machine's artifact of the same graph is the reason that operators look for.
absl::Status ArtifactFiles::WhyNot(const GraphKey& key) const {
  for (const cache::EntryInfo& info : List()) {
    const GraphKey other = GraphKey::FromText(info.key);
    if (other.other_form.has_value() || other == key || other.graph != key.graph) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("what is on disk was made for ", Difference(other, key)));
  }
  return absl::NotFoundError("it is not on disk");
}

absl::Status ArtifactFiles::Write(const Artifact& artifact) {
  if (available()) return disk_->Write(kKind, artifact.key.ToText(), WritePayload(artifact));
  return WithReason(absl::FailedPreconditionError("there is no disk cache"), "NO_DISK_CACHE");
}

absl::Status ArtifactFiles::SetAside(const GraphKey& key, const Digest& payload) const {
  return available() ? disk_->SetAside(kKind, key.ToText(), payload) : absl::OkStatus();
}

absl::Status ArtifactFiles::Remove(const GraphKey& key) {
  return available() ? disk_->Remove(kKind, key.ToText()) : absl::OkStatus();
}

absl::Status ArtifactFiles::SetPinned(const GraphKey& key, bool pinned) {
  return available() ? disk_->SetPinned(kKind, key.ToText(), pinned) : absl::OkStatus();
}

std::vector<cache::EntryInfo> ArtifactFiles::List() const {
  return available() ? disk_->List(kKind) : std::vector<cache::EntryInfo>();
}

std::optional<cache::EntryInfo> ArtifactFiles::FindInfo(const GraphKey& key) const {
  return available() ? disk_->Find(kKind, key.ToText()) : std::nullopt;
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
