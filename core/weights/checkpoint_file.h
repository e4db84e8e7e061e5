// A file of tensors that is open: mapped, with the digests of its tensors, and watched for writes.
//
// A write to the file shows in the mapping at once. So readers of tensors call CheckUnchanged
// before and after: what was read in between then has the digests that the file was opened with,
// and no weight is ever made of old and new tensors, or kept under a name that is not its own.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/files/files.h"
#include "core/base/files/mapped_file.h"
#include "core/base/text/digest.h"
#include "core/device/buffer.h"
#include "core/weights/archives.h"
#include "core/weights/file_identity.h"
#include "core/weights/stored_tensor.h"
#include "core/weights/watched_file.h"

namespace latentd::weights {

class CheckpointFile : public WatchedFile {
 public:
  // Digests are kept in `digests`. NOT_FOUND and such name the path.
  static absl::StatusOr<std::shared_ptr<CheckpointFile>> Open(const std::string& path,
                                                              DigestArchive digests);
  CheckpointFile(const CheckpointFile&) = delete;

  const std::string& path() const override { return mapping_->path(); }
  const std::shared_ptr<const MappedFile>& mapping() const { return mapping_; }

  // Makes `file` the origin of `tensors`, which are all that it holds, and their digests come from
  // it: from the archive, or of all tensors at once when the first is asked for. Call once, before
  // `file` is shared.
  static void SetTensors(const std::shared_ptr<CheckpointFile>& file, TensorMap* tensors);

  // Reads a tensor's bytes as the file has them, and not by the mapping: to read them once, all to
  // other memory, takes fewer faults of pages. OUT_OF_RANGE: the file was cut short.
  absl::Status Read(const device::ConstBuffer& tensor, char* to) const;

  // Its tensors are read again where its content may be another, and their digests compared.
  absl::Status CheckUnchanged() const override ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // A reader found other bytes than a digest names: CheckUnchanged fails from now on.
  void SetChanged() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsReplaced() const override;

 private:
  CheckpointFile(FileDescriptor file, std::shared_ptr<const MappedFile> mapping,
                 const FileIdentity& identity, DigestArchive archive)
      : file_(std::move(file)),
        mapping_(std::move(mapping)),
        opened_(identity),
        archive_(std::move(archive)),
        known_(identity) {}

  Digest DigestAt(size_t index) const ABSL_LOCKS_EXCLUDED(reading_);
  std::vector<Digest> FindOrMakeDigests() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  std::vector<Digest> ReadDigests() const;
  bool IsKnown(const FileIdentity& identity) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_changed() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the tensors again; true: they are those that the file was opened with.
  bool HasSameContent(const FileIdentity& now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);

  const FileDescriptor file_;
  const std::shared_ptr<const MappedFile> mapping_;
  const FileIdentity opened_;
  const DigestArchive archive_;
  std::vector<device::ConstBuffer> tensors_;  // in the order of their names; set once

  mutable absl::Mutex reading_;  // one thread, and those that it starts, read the whole file
  mutable std::optional<std::vector<Digest>> digests_ ABSL_GUARDED_BY(reading_);
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(reading_);
  mutable FileIdentity known_ ABSL_GUARDED_BY(mutex_);  // with the content that was opened
  mutable bool changed_ ABSL_GUARDED_BY(mutex_) = false;
};

// OK of a tensor in no file; else what its file's CheckUnchanged says.
absl::Status CheckUnchanged(const StoredTensor& tensor);

// The same, and that `read`, which was read from the tensor, has the tensor's digest.
absl::Status CheckContent(const StoredTensor& tensor, const device::ConstBuffer& read);

}  // namespace latentd::weights
