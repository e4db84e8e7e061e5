#include "core/weights/containers/diffusers_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/other_checkpoint.h"
#include "core/weights/containers/safetensors_header.h"
#include "core/weights/containers/tensor_files.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxIndexFileBytes = 1 << 20;
constexpr char kIndexName[] = "model_index.json";
constexpr char kTinyVae[] = "vae_tiny";
constexpr char kForceZeros[] = "force_zeros_for_empty_prompt";
constexpr char kAestheticsScore[] = "requires_aesthetics_score";

// The components that are read.
constexpr absl::string_view kServed[] = {"scheduler", "text_encoder", "text_encoder_2",
                                         "tokenizer", "tokenizer_2",  "unet",
                                         "vae",       kTinyVae};
// Components that every pipeline has.
constexpr absl::string_view kInEveryPipeline[] = {"scheduler", "unet", "vae"};
// Options of pipelines; a watermark is never added.
constexpr absl::string_view kOptions[] = {kForceZeros, kAestheticsScore, "add_watermarker"};

bool IsServed(absl::string_view component) { return absl::c_linear_search(kServed, component); }

// It becomes a part of a file's name.
bool IsPlainName(absl::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char byte) {
    return absl::ascii_isalnum(byte) || byte == '_' || byte == '-';
  });
}

absl::Status CheckPath(const std::string& path) {
  absl::Status opened = CheckDirectory(path);
  if (!absl::IsNotFound(opened)) return opened;
  return absl::NotFoundError(absl::StrCat(opened.message(), "; ", kWhatToPass));
}

absl::Status CheckHasIndex(const std::string& path) {
  std::error_code error;
  const std::filesystem::path directory(path);
  if (std::filesystem::exists(std::filesystem::symlink_status(directory / kIndexName, error))) {
    return absl::OkStatus();
  }
  // The folder of a repository in the Hugging Face cache is one level above its snapshots.
  const bool above_snapshots = std::filesystem::is_directory(directory / "snapshots", error);
  const std::string what = above_snapshots ? "" : DescribeFolder(path);
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has no model_index.json", what.empty() ? "" : ": ", what, "; ", kWhatToPass,
      above_snapshots ? "; here that is one of the folders in snapshots" : ""));
}

absl::Status RefuseEntry(const std::string& file, const std::string& key, absl::string_view need) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": \"", Excerpt(key, kNameBytes), "\" must be ", need));
}

// Leaves `component` empty for [null, null].
absl::Status ReadEntry(const std::string& file, const std::string& key, const Json& value,
                       Component* component) {
  const bool pair = value.is_array() && value.size() == 2;
  if (pair && value[0].is_null() && value[1].is_null()) return absl::OkStatus();
  if (!pair || !value[0].is_string() || !value[1].is_string()) {
    return RefuseEntry(file, key, "[library, class] or [null, null]");
  }
  *component = {value[0].get<std::string>(), value[1].get<std::string>()};
  return absl::OkStatus();
}

// An entry that is off says nothing.
bool IsOff(const Json& value) {
  return value.is_null() || value == false || value == Json::array({nullptr, nullptr});
}

absl::Status ReadFlag(const std::string& file, const Json& index, const std::string& key,
                      bool* flag) {
  const auto value = index.find(key);
  if (value == index.end()) return absl::OkStatus();
  if (!value->is_boolean() && !value->is_null()) return RefuseEntry(file, key, "true or false");
  *flag = value->is_boolean() && value->get<bool>();
  return absl::OkStatus();
}

// Reads the index into contents, whose `index` is its path.
class IndexReader {
 public:
  IndexReader(const std::string& path, const Reading& reading, CheckpointContents& contents)
      : path_(path), reading_(reading), contents_(contents) {}

  absl::Status Read(const Json& index) {
    for (const auto& [key, value] : index.items()) {
      if (absl::StartsWith(key, "_") || absl::c_linear_search(kOptions, key)) continue;
      RETURN_IF_ERROR(ReadComponentEntry(key, value));
    }
    if (!index.contains(kTinyVae)) AddTinyVae();
    const auto name = index.find("_class_name");
    if (name != index.end()) {
      if (!name->is_string()) return RefuseEntry(contents_.index, "_class_name", "text");
      contents_.pipeline_class = name->get<std::string>();
    }
    RETURN_IF_ERROR(
        ReadFlag(contents_.index, index, kForceZeros, &contents_.force_zeros_for_empty_prompt));
    return ReadFlag(contents_.index, index, kAestheticsScore, &contents_.requires_aesthetics_score);
  }

  void ListLacking() {
    for (const absl::string_view name : kServed) {
      const bool is_named = contents_.Find(name) != nullptr;
      const bool is_needed = is_named || absl::c_linear_search(kInEveryPipeline, name);
      if (is_needed && (!is_named || IsMissing(name))) contents_.lacking.emplace_back(name);
    }
  }

 private:
  std::string FolderOf(absl::string_view component) const {
    return absl::StrCat(path_, "/", component);
  }

  bool IsMissing(absl::string_view component) const {
    return absl::IsNotFound(CheckDirectory(FolderOf(component)));
  }

  absl::Status ReadComponentEntry(const std::string& key, const Json& value) {
    Component component;
    const absl::Status read = ReadEntry(contents_.index, key, value, &component);
    if (IsServed(key) && !value.is_null()) RETURN_IF_ERROR(read);
    if (!IsServed(key) && !IsOff(value)) contents_.passed_over.push_back(Excerpt(key));
    if (component != Component{} && IsPlainName(key)) Add(key, std::move(component));
    return absl::OkStatus();
  }

  // As AutoencoderTiny.save_pretrained leaves it; its config.json says what it is.
  void AddTinyVae() {
    if (!IsMissing(kTinyVae)) Add(kTinyVae, {"diffusers", "AutoencoderTiny"});
  }

  void Add(const std::string& key, Component component) {
    std::string note = absl::StrCat("; ", kIndexName, " says that the checkpoint has ", key, " (",
                                    Excerpt(component.library, kNameBytes), " ",
                                    Excerpt(component.class_name, kNameBytes), ")");
    contents_.components.emplace(
        key, MakeFolderSource(key, std::move(component), FolderOf(key), std::move(note), reading_));
  }

  const std::string& path_;
  const Reading& reading_;
  CheckpointContents& contents_;
};

}  // namespace

absl::StatusOr<CheckpointContents> ReadDiffusersFolder(const std::string& path,
                                                       const Reading& reading) {
  RETURN_IF_ERROR(CheckPath(path));
  RETURN_IF_ERROR(CheckHasIndex(path));
  CheckpointContents contents;
  contents.index = absl::StrCat(path, "/", kIndexName);
  ASSIGN_OR_RETURN(const Json index,
                   ReadJsonObject(contents.index, kMaxIndexFileBytes, reading.reader()));
  IndexReader reader(path, reading, contents);
  RETURN_IF_ERROR(reader.Read(index));
  reader.ListLacking();
  return contents;
}

absl::Status CheckVariantExists(const std::string& path, const CheckpointContents& contents,
                                const std::string& variant) {
  if (variant.empty()) return absl::OkStatus();
  for (const auto& [name, component] : contents.components) {
    if (HasTensorFiles(absl::StrCat(path, "/", name), variant)) return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(path, " has no tensors of the variant ", variant, " (such as unet/",
                   "diffusion_pytorch_model.", variant,
                   ".safetensors); leave the variant out to read what is there"));
}

}  // namespace latentd::weights
