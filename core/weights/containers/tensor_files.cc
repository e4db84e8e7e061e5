#include "core/weights/containers/tensor_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/containers/safetensors_header.h"

namespace latentd::weights {
namespace {

constexpr size_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxListedFiles = 8;
constexpr absl::string_view kDiffusersStem = "diffusion_pytorch_model";
constexpr absl::string_view kTransformersStem = "model";
constexpr absl::string_view kDefaultVariants[] = {"", "fp16"};

// Also true for a link that leads nowhere, so that opening it can say so.
bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

// The index files for a variant: today's name, then the one of older diffusers.
std::vector<std::string> IndexNames(absl::string_view stem, const std::string& variant) {
  if (variant.empty()) return {absl::StrCat(stem, ".safetensors.index.json")};
  return {absl::StrCat(stem, ".safetensors.index.", variant, ".json"),
          absl::StrCat(stem, ".safetensors.", variant, ".index.json")};
}

std::string SingleName(absl::string_view stem, const std::string& variant) {
  return absl::StrCat(stem, variant.empty() ? "" : ".", variant, ".safetensors");
}

std::optional<TensorFiles> LocateIndex(const std::string& folder, absl::string_view stem,
                                       const std::string& variant) {
  for (const std::string& name : IndexNames(stem, variant)) {
    std::string path = absl::StrCat(folder, "/", name);
    if (IsThere(path)) return TensorFiles{.single = "", .index = std::move(path), .shards = {}};
  }
  return std::nullopt;
}

std::optional<TensorFiles> LocateSingle(const std::string& folder, absl::string_view stem,
                                        const std::string& variant) {
  std::string path = absl::StrCat(folder, "/", SingleName(stem, variant));
  if (!IsThere(path)) return std::nullopt;
  return TensorFiles{.single = std::move(path), .index = "", .shards = {}};
}

// Finds paths only; reads nothing. Where a folder has an index and a whole file, one of them is
// stale: diffusers reads what the index names, transformers the whole file.
std::optional<TensorFiles> LocateVariant(const std::string& folder, const std::string& variant) {
  std::optional<TensorFiles> files = LocateIndex(folder, kDiffusersStem, variant);
  if (!files) files = LocateSingle(folder, kDiffusersStem, variant);
  if (!files) files = LocateSingle(folder, kTransformersStem, variant);
  if (!files) files = LocateIndex(folder, kTransformersStem, variant);
  return files;
}

std::optional<TensorFiles> Locate(const std::string& folder, const std::string& variant) {
  if (!variant.empty()) {
    std::optional<TensorFiles> files = LocateVariant(folder, variant);
    return files ? files : LocateVariant(folder, "");
  }
  for (absl::string_view name : kDefaultVariants) {
    if (std::optional<TensorFiles> files = LocateVariant(folder, std::string(name))) return files;
  }
  return std::nullopt;
}

absl::Status NoTensorFiles(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    names.push_back(Excerpt(file->path().filename().string(), kNameBytes));
  }
  std::sort(names.begin(), names.end());
  const bool pickled = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return absl::EndsWith(name, ".bin");
  });
  std::string message = absl::StrCat(
      folder, " has no tensors in the safetensors format: ", SingleName(kDiffusersStem, ""), " or ",
      SingleName(kTransformersStem, ""), ", or these with a variant or an index; it has ",
      names.empty() ? "nothing" : ListSome(names, kMaxListedFiles));
  if (pickled) {
    absl::StrAppend(&message,
                    ". Pickled .bin files are not read: load the checkpoint in Python and save it "
                    "with save_pretrained(DIR, safe_serialization=True)");
  }
  return absl::NotFoundError(message);
}

// A file name and nothing else, so that no index reaches out of its folder.
bool IsShardName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") && !absl::StrContains(name, '/') &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char byte) { return !absl::ascii_iscntrl(byte); });
}

absl::Status ReadIndex(const std::string& folder, const FileReader& read, TensorFiles* files) {
  ASSIGN_OR_RETURN(const nlohmann::json index, ReadJsonObject(files->index, kMaxIndexBytes, read));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files->index, " has no \"weight_map\" of tensor names to shard files"));
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !IsShardName(shard.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(files->index, " says that tensor ", Excerpt(tensor, kNameBytes), " is in ",
                       shard.is_string() ? Excerpt(shard.get_ref<const std::string&>(), kNameBytes)
                                         : "something that is not text",
                       "; a shard is the name of a .safetensors file in the same folder"));
    }
    const std::string path = absl::StrCat(folder, "/", shard.get_ref<const std::string&>());
    files->shards[path].push_back(tensor);
  }
  return absl::OkStatus();
}

absl::Status TakeShard(const std::string& path, const std::vector<std::string>& names,
                       const std::string& index, const DigestArchive& digests, TensorMap* tensors) {
  absl::StatusOr<TensorMap> shard = ReadSafetensors(path, digests);
  if (!shard.ok()) {
    return absl::Status(shard.status().code(),
                        absl::StrCat(shard.status().message(), " (a shard of ", index, ")"));
  }
  for (const std::string& name : names) {
    const auto tensor = shard->find(name);
    if (tensor == shard->end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, " lacks tensor ",
                                                     Excerpt(name, kNameBytes),
                                                     ", which it has according to ", index));
    }
    tensors->insert_or_assign(name, std::move(tensor->second));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasTensorFiles(const std::string& folder, const std::string& variant) {
  return LocateVariant(folder, variant).has_value();
}

absl::StatusOr<TensorFiles> FindTensorFiles(const std::string& folder, const std::string& variant,
                                            const FileReader& read) {
  std::optional<TensorFiles> files = Locate(folder, variant);
  if (!files) return NoTensorFiles(folder);
  if (!files->index.empty()) RETURN_IF_ERROR(ReadIndex(folder, read, &*files));
  return *std::move(files);
}

absl::StatusOr<TensorMap> ReadTensorFiles(const TensorFiles& files, const DigestArchive& digests) {
  if (files.index.empty()) return ReadSafetensors(files.single, digests);
  TensorMap tensors;
  for (const auto& [path, names] : files.shards) {
    RETURN_IF_ERROR(TakeShard(path, names, files.index, digests, &tensors));
  }
  return tensors;
}

}  // namespace latentd::weights
