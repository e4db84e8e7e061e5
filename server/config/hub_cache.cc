#include "server/config/hub_cache.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"

namespace latentd::server::config {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMain = "main";
constexpr size_t kMaxRefBytes = 256;

struct HubName {
  std::string organisation, name, revision;
};

// A word as the Hub has them; "." and ".." are paths.
bool IsWord(absl::string_view word) {
  const auto allowed = [](unsigned char byte) {
    return absl::ascii_isalnum(byte) || byte == '_' || byte == '-' || byte == '.';
  };
  return !word.empty() && word[0] != '.' && std::all_of(word.begin(), word.end(), allowed);
}

// A revision may have slashes ("refs/pr/1"), and leads out of no folder.
bool IsRevision(absl::string_view revision) {
  const std::vector<absl::string_view> words = absl::StrSplit(revision, '/');
  return std::all_of(words.begin(), words.end(), IsWord);
}

bool ParseHubName(absl::string_view text, HubName& parsed) {
  const std::pair<absl::string_view, absl::string_view> revised =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  const std::vector<std::string> words = absl::StrSplit(revised.first, '/');
  if (words.size() != 2 || !IsWord(words[0]) || !IsWord(words[1])) return false;
  const bool has_revision = absl::StrContains(text, '@');
  if (has_revision && !IsRevision(revised.second)) return false;
  parsed = {words[0], words[1], std::string(has_revision ? revised.second : kMain)};
  return true;
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Blobs that a download has begun, and not ended.
bool IsBeingDownloaded(const fs::path& repository) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(repository / "blobs", error)) {
    if (entry.path().extension() == ".incomplete") return true;
  }
  return false;
}

// The commit that a branch or tag stands for; a commit stands for itself.
std::string CommitOf(const fs::path& repository, const std::string& revision) {
  const auto commit = ReadFile(repository / "refs" / revision, kMaxRefBytes);
  return commit.ok() ? std::string(absl::StripAsciiWhitespace(*commit)) : revision;
}

absl::Status NotThere(const std::string& path, const std::string& what, const HubName& name) {
  const std::string revision =
      name.revision == kMain ? "" : absl::StrCat(" --revision ", name.revision);
  return absl::NotFoundError(absl::StrCat(
      path, " is no file or folder, and ", what, "; download it first: `hf download ",
      name.organisation, "/", name.name, revision, "`, with --cache-dir for a cache elsewhere"));
}

std::vector<std::string> SnapshotsOf(const fs::path& repository) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string HubCacheDirectory(const GetVariable& variable) {
  constexpr std::pair<const char*, absl::string_view> kPlaces[] = {
      {"HF_HUB_CACHE", ""},
      {"HUGGINGFACE_HUB_CACHE", ""},
      {"HF_HOME", "/hub"},
      {"XDG_CACHE_HOME", "/huggingface/hub"},
      {"HOME", "/.cache/huggingface/hub"}};
  for (const auto& [name, below] : kPlaces) {
    const char* value = variable(name);
    if (value != nullptr && *value != '\0') return absl::StrCat(value, below);
  }
  return "";
}

absl::StatusOr<std::string> FindCheckpoint(const std::string& path, const std::string& cache) {
  HubName name;
  std::error_code error;
  const bool is_there = fs::exists(fs::symlink_status(path, error));
  if (is_there || cache.empty() || !ParseHubName(path, name)) return path;
  const fs::path repository =
      fs::path(cache) / absl::StrCat("models--", name.organisation, "--", name.name);
  if (!IsDirectory(repository)) {
    return NotThere(path, absl::StrCat(cache, " has no such model"), name);
  }
  const fs::path snapshot = repository / "snapshots" / CommitOf(repository, name.revision);
  if (IsDirectory(snapshot)) return snapshot.string();
  if (IsBeingDownloaded(repository)) {
    return NotThere(path, absl::StrCat(repository.string(), " is not downloaded to its end"), name);
  }
  const std::vector<std::string> snapshots = SnapshotsOf(repository);
  return NotThere(path,
                  absl::StrCat(repository.string(), " has no revision ", name.revision, "; it has ",
                               snapshots.empty() ? "none" : absl::StrJoin(snapshots, ", ")),
                  name);
}

}  // namespace latentd::server::config
