#include "core/cache/disk_cache.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/metrics/families.h"

namespace latentd::cache {
namespace {

// Far below what file systems keep, far above what two uses in one tick of a clock need.
constexpr absl::Duration kUseStep = absl::Microseconds(1);
// Far below what making an entry takes.
constexpr absl::Duration kKeyLockPoll = absl::Milliseconds(5);

absl::StatusOr<std::shared_ptr<const MappedFile>> OpenFile(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (file.ok() || absl::IsNotFound(file.status()) || absl::IsPermissionDenied(file.status())) {
    return file;
  }
  // A directory or a pipe, which no entry could be put in the place of.
  if (absl::IsInvalidArgument(file.status())) return absl::DataLossError(file.status().message());
  return absl::UnavailableError(file.status().message());
}

int64_t Bytes(const std::vector<StoredFile>& files) {
  int64_t bytes = 0;
  for (const StoredFile& file : files) bytes += file.bytes;
  return bytes;
}

// The order of eviction: quarantined files, then weights, which are many and quickly packed again,
// then the least recently used.
auto OrderOfLeaving(const StoredFile& file) {
  return std::make_tuple(!file.quarantined, !file.weight, file.last_use,
                         absl::string_view(file.path));
}

}  // namespace

DiskCache::Metrics::Metrics(metrics::Registry& registry)
    : bytes(registry.GetGauge(metrics::kGraphCacheBytes, {"disk"})),
      evictions(registry.GetCounter(metrics::kGraphCacheEvictions, {"disk_budget"})),
      corrupt(registry.GetCounter(metrics::kGraphCacheLoadFailures, {"corrupt"})),
      unreadable(registry.GetCounter(metrics::kGraphCacheLoadFailures, {"unreadable"})),
      no_space(registry.GetCounter(metrics::kGraphCacheWriteFailures, {"no_space"})),
      read_only(registry.GetCounter(metrics::kGraphCacheWriteFailures, {"read_only"})),
      other(registry.GetCounter(metrics::kGraphCacheWriteFailures, {"other"})) {}

DiskCache::DiskCache(Options options, const Clock& clock, metrics::Registry& registry)
    : options_(std::move(options)),
      clock_(clock),
      files_(options_.directory, options_.lock_wait),
      metrics_(registry) {
  registry.GetGauge(metrics::kGraphCacheBudget, {"disk"}).Set(options_.max_bytes);
}

absl::StatusOr<std::unique_ptr<DiskCache>> DiskCache::Open(const Options& options,
                                                           const Clock& clock,
                                                           metrics::Registry& registry) {
  if (options.max_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a disk cache of ", options.max_bytes, " bytes; more than 0 are needed"));
  }
  std::unique_ptr<DiskCache> cache(new DiskCache(options, clock, registry));
  const absl::Status made = cache->files_.Make();
  const absl::Status usable = cache->files_.CheckUsable();
  // A failure to make the directory explains why it is not there.
  const absl::Status status = absl::IsUnavailable(usable) && !made.ok() ? made : usable;
  if (!status.ok()) {
    cache->CountWriteFailure(status);
    return status;
  }
  cache->Clean();
  return cache;
}

// The first Write that can cleans the directory if this cannot now.
void DiskCache::Clean() {
  if (const auto lock = files_.Acquire(); lock.ok()) {
    MakeRoom(*lock, Kind::kArtifact, 0, "").IgnoreError();
  }
  metrics_.bytes.Set(bytes());
  const absl::MutexLock lock(&mutex_);
  used_before_ = newest_use_;
}

absl::StatusOr<Entry> DiskCache::Read(Kind kind, absl::string_view key) {
  ASSIGN_OR_RETURN(Entry entry, Load(kind, key));
  // Fails in a directory that cannot be written, where nothing is evicted either.
  SetLastUse(files_.EntryPath(kind, DigestOf(key)), NextUse()).IgnoreError();
  return entry;
}

absl::StatusOr<Entry> DiskCache::Verify(Kind kind, absl::string_view key) {
  return Load(kind, key);
}

absl::Status DiskCache::SetAside(Kind kind, absl::string_view key, const Digest& payload) {
  metrics_.corrupt.Increment();
  const auto lock = files_.Acquire();
  const std::optional<EntryInfo> there = Find(kind, key);
  if (!there.has_value()) return absl::OkStatus();
  if (there->payload_digest != payload) {
    return absl::AbortedError("another entry has been written in its place");
  }
  return Quarantine(lock, kind, DigestOf(key));
}

absl::Status DiskCache::Quarantine(const absl::StatusOr<DirectoryLock>& lock, Kind kind,
                                   const Digest& digest) {
  const std::string path = files_.EntryPath(kind, digest);
  absl::Status moved =
      lock.ok() ? RenameFile(path, files_.QuarantinePath(kind, digest), *lock) : lock.status();
  const auto stays = moved.ok() ? std::nullopt : files_.FindEntry(kind, digest);
  if (stays.has_value()) {
    const absl::MutexLock held(&mutex_);
    refused_[path] = stays->last_use;
  }
  return moved;
}

absl::StatusOr<Entry> DiskCache::Peek(Kind kind, absl::string_view key) const {
  const std::string path = files_.EntryPath(kind, DigestOf(key));
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, OpenFile(path));
  ASSIGN_OR_RETURN(const ParsedEntry entry, ParseEntry(file->bytes()));
  if (entry.kind != kind || entry.key != key) {
    return absl::DataLossError("it holds another entry than its name says");
  }
  return Entry(std::move(file), entry);
}

absl::StatusOr<Entry> DiskCache::Load(Kind kind, absl::string_view key) {
  absl::StatusOr<Entry> entry = Peek(kind, key);
  if (!absl::IsDataLoss(entry.status())) {
    if (!entry.ok() && !absl::IsNotFound(entry.status())) metrics_.unreadable.Increment();
    return entry;
  }
  const auto lock = files_.Acquire();
  // Another process may have set it aside or replaced it since.
  if (lock.ok()) entry = Peek(kind, key);
  if (!absl::IsDataLoss(entry.status())) return entry;
  metrics_.corrupt.Increment();
  const Digest digest = DigestOf(key);
  const absl::Status moved = Quarantine(lock, kind, digest);
  return absl::DataLossError(
      absl::StrCat(files_.EntryPath(kind, digest), " is damaged: ", entry.status().message(),
                   moved.ok() ? absl::StrCat("; it is now ", files_.QuarantinePath(kind, digest))
                              : absl::StrCat("; it could not be set aside: ", moved.message())));
}

absl::Status DiskCache::Write(Kind kind, absl::string_view key, absl::string_view payload) {
  if (key.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", key.size(), " bytes; at most ", kMaxKeyBytes, " are kept"));
  }
  absl::Status written = Store(kind, key, payload);
  if (!written.ok()) {
    CountWriteFailure(written);
    metrics_.bytes.Set(bytes());
  }
  return written;
}

absl::Status DiskCache::Store(Kind kind, absl::string_view key, absl::string_view payload) {
  const std::string path = files_.EntryPath(kind, DigestOf(key));
  const std::string head = EncodeHead(kind, key, payload);
  ASSIGN_OR_RETURN(TemporaryFile file,
                   Reserve(kind, static_cast<int64_t>(head.size() + payload.size()), path));
  RETURN_IF_ERROR(file.Append(head));
  RETURN_IF_ERROR(file.Append(payload));
  RETURN_IF_ERROR(file.Finish(NextUse()));
  {
    ASSIGN_OR_RETURN(const DirectoryLock lock, files_.Acquire());
    RETURN_IF_ERROR(file.Publish(path, lock));
  }
  return files_.Sync(kind);
}

// Room is made before it is taken, so that a disk no larger than the budget is enough.
absl::StatusOr<TemporaryFile> DiskCache::Reserve(Kind kind, int64_t bytes,
                                                 const std::string& path) {
  RETURN_IF_ERROR(files_.Make());  // the directory may have been emptied meanwhile
  ASSIGN_OR_RETURN(const DirectoryLock lock, files_.Acquire());
  const int64_t room = CacheDirectory::RoomLeft(lock, options_.max_bytes) - bytes;
  if (room >= 0) {
    RETURN_IF_ERROR(files_.SetRoomLeft(lock, options_.max_bytes, room));
    metrics_.bytes.Increment(static_cast<double>(bytes - BytesOfFile(path)));
  } else {
    RETURN_IF_ERROR(MakeRoom(lock, kind, bytes, path));
  }
  return files_.NewTemporary(kind, bytes, lock);
}

bool DiskCache::MayGoForWeight(const StoredFile& file) const {
  return file.quarantined || (file.weight && file.last_use <= used_before_);
}

absl::Status DiskCache::MakeRoom(const DirectoryLock& lock, Kind kind, int64_t bytes,
                                 const std::string& path) {
  std::vector<StoredFile> files = files_.Files();
  NoteUses(files);
  const int64_t held = Bytes(files);
  const int64_t replaced = BytesOfFile(path);
  const int64_t needed = held - replaced + files_.ReapTemporaries(lock) + bytes;
  const auto stays = [&](const StoredFile& file) {
    return file.pinned || file.path == path ||
           (kind == Kind::kPackedWeight && !MayGoForWeight(file));
  };
  files.erase(std::remove_if(files.begin(), files.end(), stays), files.end());
  if (bytes > 0 && needed - Bytes(files) > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an entry of ", bytes, " bytes does not fit into ", options_.directory, ", which may hold ",
        options_.max_bytes, ", beside what is pinned, in use or being written there"));
  }
  ASSIGN_OR_RETURN(const int64_t evicted,
                   Evict(lock, std::move(files), needed - options_.max_bytes));
  metrics_.bytes.Set(held - replaced - evicted + bytes);
  // The entry to replace is still there, and stays if writing fails.
  const int64_t room = options_.max_bytes - (needed - evicted + replaced);
  return files_.SetRoomLeft(lock, options_.max_bytes, std::max<int64_t>(room, 0));
}

absl::StatusOr<int64_t> DiskCache::Evict(const DirectoryLock& lock, std::vector<StoredFile> files,
                                         int64_t bytes) {
  std::sort(files.begin(), files.end(), [](const StoredFile& a, const StoredFile& b) {
    return OrderOfLeaving(a) < OrderOfLeaving(b);
  });
  int64_t evicted = 0;
  for (const StoredFile& file : files) {
    if (evicted >= bytes) break;
    RETURN_IF_ERROR(RemoveFile(file.path, lock));
    if (!file.quarantined) metrics_.evictions.Increment();
    evicted += file.bytes;
  }
  return evicted;
}

void DiskCache::CountWriteFailure(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return metrics_.no_space.Increment();
    case absl::StatusCode::kPermissionDenied:
      return metrics_.read_only.Increment();
    default:
      return metrics_.other.Increment();
  }
}

absl::StatusOr<KeyLock> DiskCache::LockKey(Kind kind, absl::string_view key, absl::Duration wait,
                                           const std::function<bool()>& stop) const {
  const Digest digest = DigestOf(key);
  for (absl::Duration waited;; waited += kKeyLockPoll) {
    ASSIGN_OR_RETURN(std::optional<KeyLock> lock, files_.TryLockKey(kind, digest));
    if (lock.has_value()) return *std::move(lock);
    if (stop && stop()) return absl::CancelledError("stopped while waiting for a key's lock");
    if (waited >= wait) {
      return absl::DeadlineExceededError(
          absl::StrCat("another process has held the key's lock for ", absl::FormatDuration(wait)));
    }
    absl::SleepFor(kKeyLockPoll);
  }
}

absl::Status DiskCache::Remove(Kind kind, absl::string_view key) {
  const Digest digest = DigestOf(key);
  {
    ASSIGN_OR_RETURN(const DirectoryLock lock, files_.Acquire());
    RETURN_IF_ERROR(RemoveFile(files_.EntryPath(kind, digest), lock));
    RETURN_IF_ERROR(RemoveFile(files_.PinPath(kind, digest), lock));
  }
  metrics_.bytes.Set(bytes());
  return absl::OkStatus();
}

absl::Status DiskCache::SetPinned(Kind kind, absl::string_view key, bool pinned) {
  const std::string path = files_.PinPath(kind, DigestOf(key));
  RETURN_IF_ERROR(files_.Make());  // the directory may have been emptied meanwhile
  {
    ASSIGN_OR_RETURN(const DirectoryLock lock, files_.Acquire());
    RETURN_IF_ERROR(pinned ? MakeEmptyFile(path, lock) : RemoveFile(path, lock));
  }
  return files_.Sync(kind);
}

bool DiskCache::IsPinned(Kind kind, absl::string_view key) const {
  return files_.IsPinned(kind, DigestOf(key));
}

std::optional<EntryInfo> DiskCache::Find(Kind kind, absl::string_view key) const {
  const std::optional<StoredFile> file = files_.FindEntry(kind, DigestOf(key));
  std::optional<EntryInfo> info = file.has_value() ? Describe(kind, *file) : std::nullopt;
  if (info.has_value() && info->key != key) info.reset();
  return info;
}

bool DiskCache::Contains(Kind kind, absl::string_view key) const {
  return Find(kind, key).has_value();
}

bool DiskCache::IsRefused(const StoredFile& file) const {
  const absl::MutexLock lock(&mutex_);
  const auto refused = refused_.find(file.path);
  return refused != refused_.end() && refused->second == file.last_use;
}

// Nothing for a file that is damaged, as far as is known, or gone. The payload is not read.
std::optional<EntryInfo> DiskCache::Describe(Kind kind, const StoredFile& file) const {
  if (IsRefused(file)) return std::nullopt;
  const auto mapped = MappedFile::Open(file.path);
  if (!mapped.ok()) return std::nullopt;
  const auto entry = ParseHead((*mapped)->bytes());
  if (!entry.ok()) return std::nullopt;
  const Digest digest = DigestOf(entry->key);
  if (files_.EntryPath(entry->kind, digest) != file.path) return std::nullopt;
  // A clock that was set back has not come to some uses yet.
  return EntryInfo{kind,
                   digest,
                   std::string(entry->key),
                   entry->payload_digest,
                   file.bytes,
                   std::min(file.last_use, clock_.Wall()),
                   file.pinned};
}

std::vector<EntryInfo> DiskCache::List(Kind kind) const {
  std::vector<StoredFile> files = files_.Entries(kind);
  std::sort(files.begin(), files.end(), [](const StoredFile& a, const StoredFile& b) {
    return OrderOfLeaving(b) < OrderOfLeaving(a);
  });
  std::vector<EntryInfo> infos;
  for (const StoredFile& file : files) {
    if (auto info = Describe(kind, file)) infos.push_back(*std::move(info));
  }
  return infos;
}

int64_t DiskCache::bytes() const { return Bytes(files_.Files()); }

absl::Time DiskCache::NextUse() {
  const absl::MutexLock lock(&mutex_);
  newest_use_ = std::max(clock_.Wall(), newest_use_ + kUseStep);
  return newest_use_;
}

void DiskCache::NoteUses(const std::vector<StoredFile>& files) {
  const absl::MutexLock lock(&mutex_);
  for (const StoredFile& file : files) newest_use_ = std::max(newest_use_, file.last_use);
}

}  // namespace latentd::cache
