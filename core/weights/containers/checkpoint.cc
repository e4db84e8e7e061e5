#include "core/weights/containers/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/json.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/weights/containers/other_checkpoint.h"
#include "core/weights/containers/safetensors_header.h"
#include "core/weights/containers/tensor_files.h"
#include "core/weights/containers/tensor_names.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxConfigBytes = 1 << 20;
constexpr char kIndexName[] = "model_index.json";
constexpr char kTinyVae[] = "vae_tiny";
constexpr char kForceZeros[] = "force_zeros_for_empty_prompt";
constexpr char kAestheticsScore[] = "requires_aesthetics_score";

// The components that are read.
constexpr absl::string_view kServed[] = {"scheduler", "text_encoder", "text_encoder_2",
                                         "tokenizer", "tokenizer_2",  "unet",
                                         "vae",       kTinyVae};
// Options of pipelines; a watermark is never added.
constexpr absl::string_view kOptions[] = {kForceZeros, kAestheticsScore, "add_watermarker"};

bool IsServed(absl::string_view component) { return absl::c_linear_search(kServed, component); }
constexpr absl::string_view kWhatToPass =
    "pass a diffusers checkpoint directory, which has model_index.json and the folders unet, vae, "
    "text_encoder, tokenizer, scheduler, ...";

// Both become parts of file names.
bool IsPlainWord(absl::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char byte) {
    return absl::ascii_isalnum(byte) || byte == '_' || byte == '-';
  });
}

absl::Status CheckVariantName(const std::string& variant) {
  if (variant.empty() || IsPlainWord(variant)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variant \"", Excerpt(variant), "\" must be a word of letters, digits, _ and -: fp16"));
}

absl::Status CheckPath(const std::string& path) {
  absl::Status opened = CheckDirectory(path);
  if (absl::IsNotFound(opened)) {
    return absl::NotFoundError(absl::StrCat(opened.message(), "; ", kWhatToPass));
  }
  std::error_code error;
  if (opened.ok() || !std::filesystem::is_regular_file(path, error)) return opened;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is a file: ", DescribeFile(path), "; ", kWhatToPass));
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

// Text that is known to be a JSON object.
absl::StatusOr<std::string> ReadObjectText(const std::string& path, const FileReader& read) {
  ASSIGN_OR_RETURN(std::string text, read(path, kMaxConfigBytes));
  RETURN_IF_ERROR(ParseJsonObject(text, path, kMaxConfigBytes).status());
  return text;
}

// Leaves `component` empty for [null, null].
absl::Status ReadComponent(const std::string& file, const std::string& key, const Json& value,
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

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& path, const std::string& variant,
                                            DigestArchive digests) {
  RETURN_IF_ERROR(CheckVariantName(variant));
  RETURN_IF_ERROR(CheckPath(path));
  RETURN_IF_ERROR(CheckHasIndex(path));
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.variant_ = variant;
  checkpoint.digests_ = std::move(digests);
  RETURN_IF_ERROR(checkpoint.ReadModelIndex());
  RETURN_IF_ERROR(checkpoint.CheckVariantExists());
  return checkpoint;
}

absl::Status Checkpoint::ReadModelIndex() {
  const std::string file = absl::StrCat(path_, "/", kIndexName);
  ASSIGN_OR_RETURN(const Json index, ReadJsonObject(file, kMaxConfigBytes, reader()));
  for (const auto& [key, value] : index.items()) {
    if (absl::StartsWith(key, "_") || absl::c_linear_search(kOptions, key)) continue;
    Component component;
    const absl::Status read = ReadComponent(file, key, value, &component);
    if (IsServed(key) && !value.is_null()) RETURN_IF_ERROR(read);
    if (!IsServed(key) && !IsOff(value)) passed_over_.push_back(Excerpt(key));
    if (component != Component{} && IsPlainWord(key)) {
      components_.emplace(key, std::move(component));
    }
  }
  if (!index.contains(kTinyVae)) AddTinyVae();
  const auto name = index.find("_class_name");
  if (name != index.end()) {
    if (!name->is_string()) return RefuseEntry(file, "_class_name", "text");
    pipeline_class_ = name->get<std::string>();
  }
  RETURN_IF_ERROR(ReadFlag(file, index, kForceZeros, &force_zeros_for_empty_prompt_));
  return ReadFlag(file, index, kAestheticsScore, &requires_aesthetics_score_);
}

// As AutoencoderTiny.save_pretrained leaves it; its config.json says what it is.
void Checkpoint::AddTinyVae() {
  if (absl::IsNotFound(CheckDirectory(absl::StrCat(path_, "/", kTinyVae)))) return;
  components_.emplace(kTinyVae, Component{"diffusers", "AutoencoderTiny"});
}

absl::Status Checkpoint::CheckVariantExists() const {
  if (variant_.empty()) return absl::OkStatus();
  for (const auto& [name, component] : components_) {
    if (HasTensorFiles(absl::StrCat(path_, "/", name), variant_)) return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(path_, " has no tensors of the variant ", variant_, " (such as unet/",
                   "diffusion_pytorch_model.", variant_,
                   ".safetensors); leave the variant out to read what is there"));
}

absl::StatusOr<std::string> Checkpoint::Folder(absl::string_view component) const {
  if (!Has(component)) {
    const std::string names = absl::StrJoin(
        components_, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); });
    return absl::NotFoundError(absl::StrCat(path_, "/", kIndexName, " names no component ",
                                            component, "; it names ",
                                            names.empty() ? "none" : names));
  }
  const std::string folder = absl::StrCat(path_, "/", component);
  const absl::Status opened = CheckDirectory(folder);
  if (opened.ok()) return folder;
  if (!absl::IsNotFound(opened)) return opened;
  const Component& known = components_.find(component)->second;
  return absl::NotFoundError(absl::StrCat("the folder ", folder, " is missing; ", kIndexName,
                                          " says that the checkpoint has ", component, " (",
                                          Excerpt(known.library, kNameBytes), " ",
                                          Excerpt(known.class_name, kNameBytes), ")"));
}

absl::StatusOr<std::string> Checkpoint::ConfigText(absl::string_view component) const {
  ASSIGN_OR_RETURN(const std::string folder, Folder(component));
  return ReadObjectText(absl::StrCat(folder, "/config.json"), reader());
}

absl::StatusOr<std::string> Checkpoint::SchedulerConfigText() const {
  ASSIGN_OR_RETURN(const std::string folder, Folder("scheduler"));
  return reader()(absl::StrCat(folder, "/scheduler_config.json"), kMaxConfigBytes);
}

absl::StatusOr<std::string> Checkpoint::TokenizerDirectory(absl::string_view component) const {
  return Folder(component);
}

FileReader Checkpoint::reader() const {
  return [records = records_](const std::string& path, size_t max_bytes) {
    return records->Read(path, max_bytes);
  };
}

absl::StatusOr<TensorMap> Checkpoint::LoadTensors(absl::string_view component) const {
  ASSIGN_OR_RETURN(const std::string folder, Folder(component));
  ASSIGN_OR_RETURN(const TensorFiles files, FindTensorFiles(folder, variant_, reader()));
  ASSIGN_OR_RETURN(TensorMap tensors, ReadTensorFiles(files, digests_));
  return UnderTodaysNames(std::move(tensors), components_.find(component)->second.class_name);
}

absl::StatusOr<WeightSize> Checkpoint::SizeOf(absl::string_view component) const {
  ASSIGN_OR_RETURN(const TensorMap tensors, LoadTensors(component));
  WeightSize size;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.data.has_memory()) continue;
    size.bytes += static_cast<int64_t>(tensor.data.bytes());
    size.elements += tensor.data.elements();
  }
  return size;
}

}  // namespace latentd::weights
