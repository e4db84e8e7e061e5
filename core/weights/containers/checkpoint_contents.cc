#include "core/weights/containers/checkpoint_contents.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/diffusers_folder.h"
#include "core/weights/containers/other_checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/containers/single_file.h"

namespace latentd::weights {
namespace {

constexpr size_t kMaxPartConfigBytes = 1 << 20;

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool IsPartThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

absl::StatusOr<CheckpointContents> ReadSingleFile(const std::string& path, const Reading& reading) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, ReadSafetensorsFile(path, reading.digests));
  ASSIGN_OR_RETURN(SingleFile single,
                   RecognizeSingleFile(path, file.tensors, file.metadata, reading.said));
  CheckpointContents contents;
  contents.index = path;
  contents.is_file = true;
  contents.pipeline_class = std::move(single.pipeline_class);
  contents.force_zeros_for_empty_prompt = single.force_zeros_for_empty_prompt;
  contents.requires_aesthetics_score = single.requires_aesthetics_score;
  contents.prediction_decided_by = std::move(single.prediction_decided_by);
  contents.vae_settings = std::move(single.vae_settings);
  contents.lacking = std::move(single.lacking);
  contents.notes = std::move(single.notes);
  for (auto& [name, part] : single.parts) {
    contents.components.emplace(name, MakeFileSource(name, path, std::move(part)));
  }
  for (auto& [name, pad_token] : single.tokenizers) {
    contents.components.emplace(name, MakeTokenizerSource(path, std::move(pad_token)));
  }
  ASSIGN_OR_RETURN(const nlohmann::json scheduler,
                   ParseJsonObject(single.scheduler_config, path, kMaxPartConfigBytes));
  contents.components.emplace("scheduler",
                              MakeSchedulerSource(path, scheduler.value("_class_name", ""),
                                                  std::move(single.scheduler_config)));
  return contents;
}

// The classes that a component can be of, the usual one first, and their library.
struct Kind {
  const char* library;
  std::vector<std::string> classes;
};

Kind KindOf(absl::string_view component) {
  if (component == "unet") return {"diffusers", {"UNet2DConditionModel"}};
  if (component == "vae_tiny") return {"diffusers", {"AutoencoderTiny"}};
  if (component == "vae") return {"diffusers", {"AutoencoderKL", "AutoencoderTiny"}};
  if (component == "text_encoder_2") return {"transformers", {"CLIPTextModelWithProjection"}};
  return {"transformers", {"CLIPTextModel", "CLIPTextModelWithProjection"}};
}

// By the component's own config.json, in which old ones name no class.
absl::StatusOr<Component> ComponentOf(const std::string& folder, const std::string& name,
                                      const Reading& reading) {
  const std::string file = absl::StrCat(folder, "/config.json");
  ASSIGN_OR_RETURN(const nlohmann::json config,
                   ReadJsonObject(file, kMaxPartConfigBytes, reading.reader()));
  const Kind kind = KindOf(name);
  const std::string class_name = ClassNamedBy(config);
  if (class_name.empty()) return Component{kind.library, kind.classes.front()};
  if (absl::c_linear_search(kind.classes, class_name)) return Component{kind.library, class_name};
  return absl::InvalidArgumentError(absl::StrCat(file, ": it is a ", Excerpt(class_name), "; ",
                                                 name, " is one of ",
                                                 absl::StrJoin(kind.classes, ", ")));
}

absl::Status RefuseFolder(const std::string& path, const std::string& name) {
  const std::string what = DescribeFolder(path);
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is no ", name, ", since it has neither config.json nor model_index.json",
                   what.empty() ? "" : absl::StrCat(": ", what)));
}

absl::StatusOr<std::shared_ptr<const ComponentSource>> ReadPartOfFolder(const std::string& path,
                                                                        const std::string& name,
                                                                        const Reading& reading) {
  ASSIGN_OR_RETURN(const CheckpointContents contents, ReadDiffusersFolder(path, reading));
  const auto found = contents.components.find(name);
  if (found != contents.components.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(contents.index, " names no ", name));
}

absl::StatusOr<ReadPart> ReadPartOfFile(const std::string& path, const std::string& name,
                                        const Reading& reading) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, ReadSafetensorsFile(path, reading.digests));
  ASSIGN_OR_RETURN(FilePart part,
                   RecognizePart(path, name, file.tensors, file.metadata, reading.said));
  ReadPart read = {.source = nullptr,
                   .scheduler_settings = std::move(part.scheduler_settings),
                   .prediction_decided_by = std::move(part.prediction_decided_by)};
  read.source = MakeFileSource(name, path, std::move(part));
  return read;
}

absl::Status RefuseEma(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is a folder, and --ema takes the EMA weights of a single file; a folder "
                   "has other weights as a variant, such as --variant=non_ema"));
}

}  // namespace

const ComponentSource* CheckpointContents::Find(absl::string_view component) const {
  const auto found = components.find(component);
  return found == components.end() ? nullptr : found->second.get();
}

absl::StatusOr<CheckpointContents> ReadContents(const std::string& path, const Reading& reading) {
  if (!IsFile(path) && reading.said.ema) return RefuseEma(path);
  if (!IsFile(path)) return ReadDiffusersFolder(path, reading);
  absl::StatusOr<CheckpointContents> contents = ReadSingleFile(path, reading);
  const std::string place = contents.ok() ? "" : DescribePlace(path);
  if (place.empty()) return contents;
  return absl::Status(contents.status().code(),
                      absl::StrCat(contents.status().message(), "; ", place));
}

absl::StatusOr<ReadPart> ReadComponent(const std::string& path, const std::string& name,
                                       const Reading& reading) {
  if (IsFile(path)) return ReadPartOfFile(path, name, reading);
  if (name == "unet" && reading.said.ema) return RefuseEma(path);
  RETURN_IF_ERROR(CheckDirectory(path));
  if (IsPartThere(path + "/model_index.json")) {
    ASSIGN_OR_RETURN(auto source, ReadPartOfFolder(path, name, reading));
    return ReadPart{std::move(source)};
  }
  if (!IsPartThere(path + "/config.json")) return RefuseFolder(path, name);
  ASSIGN_OR_RETURN(Component component, ComponentOf(path, name, reading));
  return ReadPart{MakeFolderSource(name, std::move(component), path, "", reading)};
}

}  // namespace latentd::weights
