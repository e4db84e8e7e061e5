#include "core/weights/checkpoint_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/weights/file_digests.h"

namespace latentd::weights {
namespace {

using device::ConstBuffer;

// A file whose times go on changing while it is read is being written.
constexpr int kMostReadings = 3;

// Threads that are worth starting to read a file.
int ReadersOf(size_t bytes) {
  constexpr size_t kWorthAThread = size_t{16} << 20;
  const size_t most = std::min(UsableCpus(), kMostReaders);
  return static_cast<int>(std::clamp(bytes / kWorthAThread, size_t{1}, most));
}

Digest ContentOf(const ConstBuffer& tensor) {
  return DigestOf({static_cast<const char*>(tensor.data()), tensor.bytes()});
}

}  // namespace

absl::StatusOr<std::shared_ptr<CheckpointFile>> CheckpointFile::Open(const std::string& path,
                                                                     DigestArchive digests) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenForReading(path));
  // Before the mapping, so that a write in between counts.
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(file, path));
  ASSIGN_OR_RETURN(auto mapping, MappedFile::Map(file, path));
  return std::shared_ptr<CheckpointFile>(
      new CheckpointFile(std::move(file), std::move(mapping), identity, std::move(digests)));
}

void CheckpointFile::SetTensors(const std::shared_ptr<CheckpointFile>& file, TensorMap* tensors) {
  std::vector<std::pair<std::string, StoredTensor*>> usable;
  for (auto& [name, tensor] : *tensors) {
    if (tensor.data.has_memory()) usable.emplace_back(name, &tensor);
  }
  std::sort(usable.begin(), usable.end());
  for (size_t i = 0; i < usable.size(); ++i) {
    StoredTensor& tensor = *usable[i].second;
    file->tensors_.push_back(tensor.data);
    tensor.origin = file;
    tensor.digest = std::make_shared<const ContentDigest>([file, i] { return file->DigestAt(i); });
  }
}

Digest CheckpointFile::DigestAt(size_t index) const {
  absl::MutexLock lock(&reading_);
  if (!digests_.has_value()) digests_ = FindOrMakeDigests();
  return (*digests_)[index];
}

std::vector<Digest> CheckpointFile::FindOrMakeDigests() const {
  if (auto found = FindDigests(archive_, path(), opened_, tensors_.size())) {
    return *std::move(found);
  }
  const bool is_settled = opened_.IsSettled(archive_.clock->Wall());
  std::vector<Digest> digests = ReadDigests();
  const absl::StatusOr<FileIdentity> after = IdentityOf(file_, path());
  if (!after.ok() || *after != opened_) {
    SetChanged();  // the state that it was opened with is unknown
  } else if (is_settled) {
    KeepDigests(archive_, path(), opened_, digests);
  }
  return digests;
}

absl::Status CheckpointFile::Read(const ConstBuffer& tensor, char* to) const {
  const char* const from = static_cast<const char*>(tensor.data());
  off_t offset = from - mapping_->bytes().data();
  for (size_t left = tensor.bytes(); left > 0;) {
    const ssize_t count = pread(file_.get(), to, left, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("read", path(), errno);
    if (count == 0) return absl::OutOfRangeError(absl::StrCat(path(), " was cut short"));
    to += count;
    offset += count;
    left -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

std::vector<Digest> CheckpointFile::ReadDigests() const {
  std::vector<Digest> digests(tensors_.size());
  SplitWorkOn(ReadersOf(mapping_->bytes().size()), static_cast<int>(tensors_.size()),
              [&](int i) { digests[i] = ContentOf(tensors_[i]); });
  return digests;
}

bool CheckpointFile::is_changed() const {
  absl::MutexLock lock(&mutex_);
  return changed_;
}

void CheckpointFile::SetChanged() const {
  absl::MutexLock lock(&mutex_);
  changed_ = true;
}

bool CheckpointFile::IsKnown(const FileIdentity& identity) const {
  absl::MutexLock lock(&mutex_);
  return !changed_ && identity == known_;
}

absl::Status CheckpointFile::CheckUnchanged() const {
  absl::StatusOr<FileIdentity> now = IdentityOf(file_, path());
  if (now.ok() && IsKnown(*now)) return absl::OkStatus();
  absl::MutexLock lock(&reading_);
  for (int reading = 0; reading < kMostReadings && !is_changed(); ++reading) {
    if (!now.ok() || !HasSameContent(*now)) break;
    const absl::StatusOr<FileIdentity> after = IdentityOf(file_, path());
    if (after.ok() && *after == *now) {
      absl::MutexLock known(&mutex_);
      known_ = *now;
      return absl::OkStatus();
    }
    now = after;
  }
  SetChanged();
  return CheckpointChangedError(path());
}

bool CheckpointFile::HasSameContent(const FileIdentity& now) const {
  if (IsKnown(now)) return true;  // another thread has just read it
  // A file that was cut short cannot even be read.
  return now.bytes == opened_.bytes && digests_.has_value() && ReadDigests() == *digests_;
}

bool CheckpointFile::IsReplaced() const {
  struct stat info;
  return stat(path().c_str(), &info) != 0 || info.st_dev != opened_.device ||
         info.st_ino != opened_.inode;
}

absl::Status CheckUnchanged(const StoredTensor& tensor) {
  return tensor.origin == nullptr ? absl::OkStatus() : tensor.origin->CheckUnchanged();
}

absl::Status CheckContent(const StoredTensor& tensor, const ConstBuffer& read) {
  if (tensor.origin == nullptr) return absl::OkStatus();
  if (ContentOf(read) != tensor.digest->Get()) tensor.origin->SetChanged();
  return tensor.origin->CheckUnchanged();
}

}  // namespace latentd::weights
