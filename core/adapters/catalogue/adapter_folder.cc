#include "core/adapters/catalogue/adapter_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adapters/catalogue/whole_file.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/text/text.h"
#include "core/weights/file_identity.h"

namespace latentd::adapters {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 10000;
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostBesideBytes = size_t{1} << 20;
constexpr absl::string_view kSafetensors = ".safetensors";
constexpr absl::string_view kPickles[] = {".pt", ".bin", ".ckpt", ".pth"};
constexpr absl::string_view kFilesOfFolders[] = {
    "adapter_model.safetensors", "pytorch_lora_weights.safetensors",
    "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors"};
constexpr absl::string_view kImageEncoder = "image_encoder";
constexpr absl::string_view kConfigs[] = {"adapter_config.json", "config.json"};

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool LeadsNowhere(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(path, error)) && !fs::exists(path, error);
}

// The tensors of a folder that is one adapter; empty: it is none.
fs::path TensorsIn(const fs::path& folder) {
  for (const absl::string_view name : kFilesOfFolders) {
    if (IsFile(folder / std::string(name))) return folder / std::string(name);
  }
  return {};
}

absl::StatusOr<std::string> StampOfFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError("examine", path, errno);
  const weights::FileIdentity identity{.device = info.st_dev,
                                       .inode = info.st_ino,
                                       .bytes = info.st_size,
                                       .modified = absl::TimeFromTimespec(info.st_mtim),
                                       .changed = absl::TimeFromTimespec(info.st_ctim)};
  return identity.ToText();
}

// The file in which an operator says something of the adapter.
std::string BesideOf(const std::string& path) {
  return IsFolder(path) ? absl::StrCat(path, ".json")
                        : fs::path(path).replace_extension(".json").string();
}

absl::StatusOr<std::string> StampOfTensors(const std::string& path) {
  if (!IsFolder(path)) return StampOfFile(path);
  const fs::path tensors = TensorsIn(path);
  if (tensors.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " is a folder without ", absl::StrJoin(kFilesOfFolders, " or ")));
  }
  ASSIGN_OR_RETURN(std::string stamp, StampOfFile(tensors.string()));
  for (const absl::string_view name : kConfigs) {
    const fs::path config = fs::path(path) / std::string(name);
    if (!IsFile(config)) continue;
    ASSIGN_OR_RETURN(const std::string beside, StampOfFile(config.string()));
    absl::StrAppend(&stamp, "\n", beside);
  }
  return stamp;
}

absl::StatusOr<std::string> StampAt(const std::string& path) {
  ASSIGN_OR_RETURN(std::string stamp, StampOfTensors(path));
  const absl::StatusOr<std::string> beside = StampOfFile(BesideOf(path));
  if (beside.ok()) absl::StrAppend(&stamp, "\n", *beside);
  return stamp;
}

// Empty: the folder has none.
std::string StampOfEncoder(const std::string& folder) {
  std::string stamp;
  if (!IsFolder(folder)) return stamp;
  for (const std::string& file : ImageEncoderFiles(folder)) {
    const absl::StatusOr<std::string> own = StampOfFile(file);
    if (own.ok()) absl::StrAppend(&stamp, "\n", file, " ", *own);
  }
  return stamp;
}

std::string FolderOf(const std::string& file) { return fs::path(file).parent_path().string(); }

std::string StampOfEncoders(const std::string& path, const std::string& root,
                            const std::string& last) {
  std::string stamp;
  for (const std::string& folder : ImageEncoderFolders(path, root)) {
    absl::StrAppend(&stamp, StampOfEncoder(folder));
    if (fs::path(folder).lexically_relative(root).string() == FolderOf(last)) break;
  }
  return stamp;
}

std::vector<ImageEncoderFile> OpenEncoders(const std::string& path, const std::string& root,
                                           const weights::DigestArchive& digests) {
  std::vector<ImageEncoderFile> encoders = OpenImageEncoders(path, root, digests);
  for (ImageEncoderFile& encoder : encoders) {
    encoder.stamp = StampOfEncoder(FolderOf((fs::path(root) / encoder.path).string()));
  }
  return encoders;
}

bool IsName(absl::string_view name) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
  };
  return !name.empty() && name.size() <= kMostNameBytes && absl::c_all_of(name, allowed) &&
         (absl::ascii_isalnum(static_cast<unsigned char>(name[0])) || name[0] == '_');
}

// Walks a folder and those below it.
class Lister {
 public:
  explicit Lister(fs::path root) : root_(std::move(root)) {}

  absl::StatusOr<std::vector<FoundAdapter>> List() && {
    std::error_code error;
    const fs::directory_iterator begin(root_, error);
    if (error) return FileError("list", root_.string(), error.value());
    if (const auto own = IdOf(root_)) way_.push_back(*own);
    Walk(begin);
    // The path of a folder that has the name of a file is shorter: it comes later.
    const auto order = [](const FoundAdapter& adapter) {
      return std::tuple(adapter.name, !adapter.problem.empty(),
                        -static_cast<int64_t>(adapter.path.size()));
    };
    absl::c_sort(found_, [&](const auto& a, const auto& b) { return order(a) < order(b); });
    const auto is_same = [](const auto& a, const auto& b) { return a.name == b.name; };
    found_.erase(std::unique(found_.begin(), found_.end(), is_same), found_.end());
    return std::move(found_);
  }

 private:
  using FolderId = std::pair<dev_t, ino_t>;

  // Folders on the way to one that is read, with the root.
  static constexpr size_t kMostDepth = 9;

  static std::optional<FolderId> IdOf(const fs::path& folder) {
    struct stat info;
    if (stat(folder.c_str(), &info) != 0) return std::nullopt;
    return FolderId(info.st_dev, info.st_ino);
  }

  void Walk(fs::directory_iterator at) {
    std::error_code error;
    for (; at != fs::directory_iterator() && found_.size() < kMostFiles; at.increment(error)) {
      if (error) return;
      const fs::path& path = at->path();
      if (path.filename().string().front() == '.') continue;
      if (!IsFolder(path)) {
        AddFile(path);
      } else if (path.filename() == std::string(kImageEncoder)) {
        continue;
      } else if (!TensorsIn(path).empty()) {
        Add(path, path.lexically_relative(root_));
      } else {
        Enter(path);
      }
    }
  }

  void Enter(const fs::path& folder) {
    const std::optional<FolderId> id = IdOf(folder);
    if (!id || way_.size() >= kMostDepth) return;
    if (absl::c_linear_search(way_, *id)) {
      Add(folder, folder.lexically_relative(root_)).problem =
          absl::StrCat(folder.string(), " is a link to a folder that it lies in");
      return;
    }
    std::error_code error;
    way_.push_back(*id);
    Walk(fs::directory_iterator(folder, error));
    way_.pop_back();
  }

  void AddFile(const fs::path& path) {
    const std::string suffix = absl::AsciiStrToLower(path.extension().string());
    const bool is_pickle = absl::c_linear_search(kPickles, suffix);
    if (LeadsNowhere(path) && (suffix.empty() || suffix == kSafetensors || is_pickle)) {
      std::error_code error;
      Add(path, path.lexically_relative(root_).replace_extension()).problem =
          absl::StrCat(path.string(), " is a link to ", fs::read_symlink(path, error).string(),
                       ", which is not there");
      return;
    }
    if ((suffix != kSafetensors && !is_pickle) || !IsFile(path)) return;
    FoundAdapter& added = Add(path, path.lexically_relative(root_).replace_extension());
    if (is_pickle) {
      added.problem = absl::StrCat(
          path.string(),
          " is a pickle, which could run anything: load it once in Python with torch.load(..., "
          "weights_only=True) and save it with safetensors.torch.save_file");
    }
  }

  FoundAdapter& Add(const fs::path& path, const fs::path& name) {
    FoundAdapter& added =
        found_.emplace_back(FoundAdapter{.name = name.generic_string(), .path = path.string()});
    if (!IsName(added.name)) {
      added.problem = absl::StrCat(path.string(),
                                   ": names have letters, digits, '.', '_' and '-' "
                                   "of ASCII, and begin with no sign: rename it");
    }
    absl::StatusOr<std::string> stamp = StampAt(added.path);
    if (stamp.ok()) {
      added.stamp = *std::move(stamp);
    } else if (added.problem.empty()) {
      added.problem = std::string(stamp.status().message());
    }
    return added;
  }

  const fs::path root_;
  std::vector<FolderId> way_;  // from the root to the folder that is being read
  std::vector<FoundAdapter> found_;
};

std::string SaidOf(const std::string& path) {
  const std::string beside = BesideOf(path);
  if (!IsFile(beside)) return "";
  absl::StatusOr<std::string> text = ReadFile(beside, kMostBesideBytes);
  return text.ok() ? *std::move(text) : "";
}

}  // namespace

AdapterFolder FolderOnDisk(const std::string& directory, weights::DigestArchive digests) {
  return {.list = [directory] { return Lister(directory).List(); },
          .stamp = StampAt,
          .open = [digests](const std::string& path) { return OpenLora(path, digests); },
          .read = ReadWhole,
          .said = SaidOf,
          .image_encoders =
              [directory, digests](const std::string& path) {
                return OpenEncoders(path, directory, digests);
              },
          .encoders_stamp =
              [directory](const std::string& path, const std::string& last) {
                return StampOfEncoders(path, directory, last);
              }};
}

}  // namespace latentd::adapters
