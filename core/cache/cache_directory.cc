#include "core/cache/cache_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/errors/status_macros.h"

namespace latentd::cache {
namespace {

constexpr absl::string_view kEntrySuffix = ".latent";
constexpr absl::string_view kPinSuffix = ".pin";
constexpr absl::string_view kTemporarySuffix = ".tmp";
constexpr absl::string_view kQuarantine = "quarantine";
constexpr absl::string_view kLockName = "lock";
constexpr absl::string_view kKeyLocksName = "key-locks";
constexpr absl::Duration kLockPoll = absl::Milliseconds(1);

// Below the cache directory.
std::vector<std::string> Subdirectories() {
  std::vector<std::string> names = {std::string(kQuarantine)};
  for (const Kind kind : kKinds) names.emplace_back(KindName(kind));
  return names;
}

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EROFS:
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

absl::Status MakeOne(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return CacheFileError("make the directory", path, errno);
}

// Others could replace a file that was checked by one that was not.
absl::Status CheckNotOpenToAll(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::OkStatus();  // CheckUsable asks first
  if ((info.st_mode & S_IWOTH) == 0 || (info.st_mode & S_ISVTX) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " may be written by every user; remove that right (chmod o-w ", path,
                   ") or name another cache directory"));
}

std::vector<std::string> FilesWithSuffix(const std::string& directory, absl::string_view suffix) {
  std::vector<std::string> paths;
  std::error_code error;  // a directory that is not there, or cannot be read, has no files
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (absl::EndsWith(it->path().native(), suffix)) paths.push_back(it->path().native());
  }
  return paths;
}

// nullopt: there is none.
std::optional<StoredFile> StoredFileAt(std::string path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return StoredFile{.path = std::move(path),
                    .bytes = info.st_size,
                    .last_use = absl::TimeFromTimespec(info.st_mtim)};
}

std::vector<StoredFile> StoredFiles(const std::string& directory) {
  std::vector<StoredFile> files;
  for (std::string& path : FilesWithSuffix(directory, kEntrySuffix)) {
    if (auto file = StoredFileAt(std::move(path))) files.push_back(*std::move(file));
  }
  return files;
}

// OK too if there is none.
absl::Status Unlink(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return CacheFileError("remove", path, errno);
}

// Its size where a process still writes it; else removes it.
int64_t ReapTemporary(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return 0;
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0 && Unlink(path).ok()) return 0;
  struct stat info;
  return fstat(file.get(), &info) == 0 ? info.st_size : 0;
}

absl::Status SyncPath(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || fsync(directory.get()) != 0) {
    return CacheFileError("write out the directory", path, errno);
  }
  return absl::OkStatus();
}

// One byte of the file of key locks. Keys that share one only wait for each other.
struct flock KeyRange(Kind kind, const Digest& digest) {
  const uint64_t mixed = digest.low ^ static_cast<uint64_t>(kind);
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(mixed >> 2);  // not negative, nor the last that there can be
  range.l_len = 1;
  return range;
}

// The time of last access stays as it is.
std::array<timespec, 2> FileTimes(absl::Time last_use) {
  return {timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, absl::ToTimespec(last_use)};
}

}  // namespace

absl::Status CacheFileError(absl::string_view doing, const std::string& path, int error_number) {
  return absl::Status(CodeOf(error_number), FileError(doing, path, error_number).message());
}

absl::Status SetLastUse(const std::string& path, absl::Time last_use) {
  if (utimensat(AT_FDCWD, path.c_str(), FileTimes(last_use).data(), 0) == 0) {
    return absl::OkStatus();
  }
  return CacheFileError("set the time of", path, errno);
}

absl::Status RemoveFile(const std::string& path, const DirectoryLock& lock) { return Unlink(path); }

absl::Status MakeEmptyFile(const std::string& path, const DirectoryLock& lock) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return file.get() >= 0 ? absl::OkStatus() : CacheFileError("make", path, errno);
}

absl::Status RenameFile(const std::string& from, const std::string& to, const DirectoryLock& lock) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return CacheFileError(absl::StrCat("rename ", from, " to"), to, errno);
}

int64_t BytesOfFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), file_(std::move(other.file_)) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) Unlink(path_).IgnoreError();  // Open takes away what stays
}

absl::Status TemporaryFile::Reserve(int64_t bytes) {
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) return CacheFileError("lock", path_, errno);
  if (ftruncate(file_.get(), bytes) != 0) return CacheFileError("write", path_, errno);
  return absl::OkStatus();
}

absl::Status TemporaryFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return CacheFileError("write", path_, errno);
    if (count > 0) bytes.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status TemporaryFile::Finish(absl::Time last_use) {
  // Without its time it is only evicted too late or too soon.
  futimens(file_.get(), FileTimes(last_use).data());
  if (fsync(file_.get()) != 0) return CacheFileError("write out", path_, errno);
  return absl::OkStatus();
}

absl::Status TemporaryFile::Publish(const std::string& path, const DirectoryLock& lock) {
  RETURN_IF_ERROR(RenameFile(path_, path, lock));
  path_.clear();
  return absl::OkStatus();
}

std::string CacheDirectory::Below(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::string CacheDirectory::EntryPath(Kind kind, const Digest& digest) const {
  return absl::StrCat(Below(KindName(kind)), "/", digest.ToString(), kEntrySuffix);
}

std::string CacheDirectory::PinPath(Kind kind, const Digest& digest) const {
  return absl::StrCat(Below(KindName(kind)), "/", digest.ToString(), kPinSuffix);
}

std::string CacheDirectory::QuarantinePath(Kind kind, const Digest& digest) const {
  return absl::StrCat(Below(kQuarantine), "/", KindName(kind), "-", digest.ToString(),
                      kEntrySuffix);
}

absl::Status CacheDirectory::Make() const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  RETURN_IF_ERROR(MakeOne(path_));
  for (const std::string& name : Subdirectories()) RETURN_IF_ERROR(MakeOne(Below(name)));
  return absl::OkStatus();
}

absl::Status CacheDirectory::CheckUsable() const {
  struct stat info;
  if (stat(path_.c_str(), &info) != 0) return CacheFileError("use", path_, errno);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is not a directory; a cache directory is needed"));
  }
  RETURN_IF_ERROR(CheckNotOpenToAll(path_));
  if (faccessat(AT_FDCWD, path_.c_str(), R_OK | X_OK, AT_EACCESS) != 0) {
    return CacheFileError("enter", path_, errno);
  }
  for (const std::string& name : Subdirectories()) RETURN_IF_ERROR(CheckNotOpenToAll(Below(name)));
  return absl::OkStatus();
}

absl::StatusOr<DirectoryLock> CacheDirectory::Acquire() const {
  const std::string path = Below(kLockName);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return CacheFileError("open", path, errno);
  // Tried again and again, since a process that was stopped may hold it for ever.
  for (absl::Duration waited; flock(file.get(), LOCK_EX | LOCK_NB) != 0; waited += kLockPoll) {
    if (errno != EWOULDBLOCK) return CacheFileError("lock", path, errno);
    if (waited >= lock_wait_) {
      return absl::UnavailableError(absl::StrCat(path, " has been held by another process for ",
                                                 absl::FormatDuration(lock_wait_)));
    }
    absl::SleepFor(kLockPoll);
  }
  return DirectoryLock(std::move(file));
}

// Locks of an open file, unlike those of a process, hold between threads too.
absl::StatusOr<std::optional<KeyLock>> CacheDirectory::TryLockKey(Kind kind,
                                                                  const Digest& digest) const {
  const std::string path = Below(kKeyLocksName);
  KeyLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return CacheFileError("open", path, errno);
  struct flock range = KeyRange(kind, digest);
  if (fcntl(lock.get(), F_OFD_SETLK, &range) == 0) return std::optional<KeyLock>(std::move(lock));
  if (errno == EAGAIN || errno == EACCES) return std::optional<KeyLock>();
  return CacheFileError("lock", path, errno);
}

int64_t CacheDirectory::RoomLeft(const DirectoryLock& lock, int64_t max_bytes) {
  std::array<int64_t, 2> noted = {};
  const ssize_t count = pread(lock.file_.get(), noted.data(), sizeof noted, 0);
  return count == sizeof noted && noted[0] == max_bytes ? noted[1] : 0;
}

absl::Status CacheDirectory::SetRoomLeft(const DirectoryLock& lock, int64_t max_bytes,
                                         int64_t room) const {
  const std::array<int64_t, 2> noted = {max_bytes, room};
  const ssize_t count = pwrite(lock.file_.get(), noted.data(), sizeof noted, 0);
  return count == sizeof noted ? absl::OkStatus()
                               : CacheFileError("write", Below(kLockName), errno);
}

std::optional<StoredFile> CacheDirectory::FindEntry(Kind kind, const Digest& digest) const {
  std::optional<StoredFile> file = StoredFileAt(EntryPath(kind, digest));
  if (!file.has_value()) return std::nullopt;
  file->weight = kind == Kind::kPackedWeight;
  file->pinned = IsPinned(kind, digest);
  return file;
}

bool CacheDirectory::IsPinned(Kind kind, const Digest& digest) const {
  return access(PinPath(kind, digest).c_str(), F_OK) == 0;
}

std::vector<StoredFile> CacheDirectory::Entries(Kind kind) const {
  const std::string directory = Below(KindName(kind));
  absl::flat_hash_set<std::string> pinned;
  for (const std::string& path : FilesWithSuffix(directory, kPinSuffix)) {
    pinned.emplace(absl::StripSuffix(path, kPinSuffix));
  }
  std::vector<StoredFile> files = StoredFiles(directory);
  for (StoredFile& file : files) {
    file.weight = kind == Kind::kPackedWeight;
    file.pinned = pinned.contains(absl::StripSuffix(file.path, kEntrySuffix));
  }
  return files;
}

std::vector<StoredFile> CacheDirectory::Files() const {
  std::vector<StoredFile> files = StoredFiles(Below(kQuarantine));
  for (StoredFile& file : files) file.quarantined = true;
  for (const Kind kind : kKinds) {
    std::vector<StoredFile> entries = Entries(kind);
    files.insert(files.end(), std::make_move_iterator(entries.begin()),
                 std::make_move_iterator(entries.end()));
  }
  return files;
}

int64_t CacheDirectory::ReapTemporaries(const DirectoryLock& lock) const {
  int64_t bytes = 0;
  for (const Kind kind : kKinds) {
    for (const std::string& path : FilesWithSuffix(Below(KindName(kind)), kTemporarySuffix)) {
      bytes += ReapTemporary(path);
    }
  }
  return bytes;
}

absl::StatusOr<TemporaryFile> CacheDirectory::NewTemporary(Kind kind, int64_t bytes,
                                                           const DirectoryLock& lock) const {
  std::string path = absl::StrCat(Below(KindName(kind)), "/XXXXXX", kTemporarySuffix);
  FileDescriptor file(mkostemps(path.data(), kTemporarySuffix.size(), O_CLOEXEC));
  if (file.get() < 0) return CacheFileError("make a file like", path, errno);
  TemporaryFile temporary(path, std::move(file));
  RETURN_IF_ERROR(temporary.Reserve(bytes));
  return temporary;
}

absl::Status CacheDirectory::Sync(Kind kind) const { return SyncPath(Below(KindName(kind))); }

}  // namespace latentd::cache
