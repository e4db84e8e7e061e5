#include "core/engine/models/kept_findings.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/compiler/finding_files.h"
#include "core/compiler/graph_key.h"

namespace latentd::engine {
namespace {

using backends::KernelWork;
using compiler::FindingFiles;

metrics::Counter& CounterOf(KernelWork work, metrics::Registry& registry) {
  switch (work) {
    case KernelWork::kTrial:
      return registry.GetCounter(metrics::kKernelTrials);
    case KernelWork::kTrialFault:
      return registry.GetCounter(metrics::kKernelTrialFaults);
    case KernelWork::kPlanBuilt:
      return registry.GetCounter(metrics::kKernelPlansBuilt);
    case KernelWork::kPlanRestored:
      return registry.GetCounter(metrics::kKernelPlansRestored);
    case KernelWork::kFound:
      return registry.GetCounter(metrics::kKernelFindings, {"found"});
    case KernelWork::kRefused:
      break;
  }
  return registry.GetCounter(metrics::kKernelFindings, {"refused"});
}

// The archive's functions, which share it.
class FindingsOnDisk {
 public:
  explicit FindingsOnDisk(const KeptFindings::Parts& parts)
      : files_(*parts.disk, compiler::BuildKeyOf(parts.backend, {})),
        writes_(parts.writes),
        warn_(parts.warn) {}

  std::optional<std::string> Find(const std::string& shape) {
    absl::StatusOr<std::string> choice = files_.Read(shape);
    if (choice.ok()) return *std::move(choice);
    if (!absl::IsNotFound(choice.status())) Warn(choice.status().message());
    ExplainOnce();
    return std::nullopt;
  }

  // Findings that cannot be written are counted by the cache, and chosen again after a restart.
  void Keep(const std::string& shape, const std::string& choice) {
    writes_.Add([files = files_, shape, choice] { files.Write(shape, choice).IgnoreError(); },
                shape.size() + choice.size());
  }

 private:
  // Others that miss wait, so that none of this build is on disk before it was looked at.
  void ExplainOnce() {
    absl::MutexLock lock(&explaining_);
    if (!explained_) Explain();
    explained_ = true;
  }
  void Explain() const {
    const std::optional<std::string> why = files_.WhyNone();
    if (why.has_value()) {
      Warn(absl::StrCat("kernels are chosen anew: those in the cache directory were chosen for ",
                        *why));
    }
  }
  void Warn(absl::string_view what) const {
    if (warn_) warn_(what);
  }

  const FindingFiles files_;
  Worker& writes_;
  const std::function<void(absl::string_view)> warn_;
  absl::Mutex explaining_;
  bool explained_ ABSL_GUARDED_BY(explaining_) = false;
};

backends::FindingArchive ArchiveOf(const KeptFindings::Parts& parts) {
  backends::FindingArchive archive;
  archive.count = [&registry = parts.registry](KernelWork work) {
    CounterOf(work, registry).Increment();
  };
  archive.warn = parts.warn;
  if (parts.disk == nullptr) return archive;
  const auto kept = std::make_shared<FindingsOnDisk>(parts);
  archive.find = [kept](const std::string& shape) { return kept->Find(shape); };
  archive.keep = [kept](const std::string& shape, const std::string& choice) {
    kept->Keep(shape, choice);
  };
  return archive;
}

}  // namespace

KeptFindings::KeptFindings(const Parts& parts) : findings_(parts.backend.findings()) {
  if (findings_ != nullptr) findings_->Connect(ArchiveOf(parts));
}

KeptFindings::~KeptFindings() {
  if (findings_ != nullptr) findings_->Connect({});
}

}  // namespace latentd::engine
