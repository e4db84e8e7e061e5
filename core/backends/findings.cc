#include "core/backends/findings.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace latentd::backends {
namespace {

// Many more shapes than models have.
constexpr size_t kMostFindings = 4096;

void CountIn(const FindingArchive& archive, KernelWork work) {
  if (archive.count) archive.count(work);
}

}  // namespace

Findings::Turn Findings::WaitForTurn(const std::string& shape) {
  const auto is_free = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !choosing_.contains(shape);
  };
  absl::MutexLock lock(&mutex_, absl::Condition(&is_free));
  choosing_.insert(shape);
  return {*this, shape};
}

void Findings::End(const std::string& shape) {
  absl::MutexLock lock(&mutex_);
  choosing_.erase(shape);
}

void Findings::Connect(FindingArchive archive) {
  absl::MutexLock lock(&mutex_);
  archive_ = std::make_shared<const FindingArchive>(std::move(archive));
}

Findings::Archive Findings::archive() const {
  absl::MutexLock lock(&mutex_);
  return archive_;
}

std::optional<std::string> Findings::ChoiceOf(const std::optional<Found>& found) {
  if (!found.has_value()) return std::nullopt;
  return found->choice;
}

std::optional<Findings::Found>& Findings::At(const std::string& shape) {
  if (found_.size() >= kMostFindings && !found_.contains(shape)) found_.clear();
  return found_[shape];
}

std::optional<std::string> Findings::Find(const std::string& shape) {
  Archive archive;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = found_.find(shape);
    if (found != found_.end()) return ChoiceOf(found->second);
    archive = archive_;
  }
  std::optional<std::string> choice;
  if (archive->find) choice = archive->find(shape);
  if (choice.has_value()) CountIn(*archive, KernelWork::kFound);
  absl::MutexLock lock(&mutex_);
  std::optional<Found>& there = At(shape);
  if (!there.has_value() && choice.has_value()) there = Found{*std::move(choice), true};
  return ChoiceOf(there);
}

std::string Findings::Keep(const std::string& shape, std::string choice) {
  Archive archive;
  {
    absl::MutexLock lock(&mutex_);
    std::optional<Found>& there = At(shape);
    if (there.has_value()) return there->choice;
    there = Found{choice, false};
    archive = archive_;
  }
  if (archive->keep) archive->keep(shape, choice);
  return choice;
}

void Findings::Refuse(const std::string& shape, const std::string& choice,
                      const absl::Status& why) {
  Archive archive;
  {
    absl::MutexLock lock(&mutex_);
    std::optional<Found>& there = At(shape);
    if (!there.has_value() || there->choice != choice) return;
    if (there->archived) archive = archive_;
    there.reset();
  }
  if (archive == nullptr) return;
  CountIn(*archive, KernelWork::kRefused);
  if (!archive->warn) return;
  archive->warn(absl::StrCat("the kernel that is kept on disk for ", shape,
                             " is refused, and chosen anew: ", why.message()));
}

void Findings::Warn(absl::string_view what) const {
  const Archive warned = archive();
  if (warned->warn) warned->warn(what);
}

void Findings::Count(KernelWork work) const { CountIn(*archive(), work); }

}  // namespace latentd::backends
