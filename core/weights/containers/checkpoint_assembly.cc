#include "core/weights/containers/checkpoint_assembly.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/component_source.h"
#include "core/weights/containers/diffusers_folder.h"
#include "core/weights/containers/other_checkpoint.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;
using SharedSource = std::shared_ptr<const ComponentSource>;

constexpr size_t kMaxAssembledConfigBytes = 1 << 20;

// Tells the families of UNets apart, in config.json. A UNet for inpainting, of more input channels,
// goes with the text encoders and the VAE of any other.
constexpr const char* kFamilyFields[] = {"cross_attention_dim", "addition_embed_type",
                                         "projection_class_embeddings_input_dim", "out_channels"};

// Settings of a VAE that no tensor tells.
constexpr const char* kVaeSettings[] = {"scaling_factor", "shift_factor", "sample_size",
                                        "force_upcast",   "latents_mean", "latents_std"};

absl::StatusOr<Json> ConfigOf(const ComponentSource& source) {
  ASSIGN_OR_RETURN(const std::string text, source.ConfigText());
  return ParseJsonObject(text, source.ConfigName(), kMaxAssembledConfigBytes);
}

bool IsOneFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

absl::Status Annotated(const absl::Status& status, absl::string_view flag) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(flag, ": ", status.message())};
}

// A field that is null is as one that is not there. Lists have a number for each block.
std::string FieldText(const Json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return "none";
  return found->is_array() && !found->empty() ? found->front().dump() : found->dump();
}

// "768" -> "Stable Diffusion 1"; of another network "another network".
absl::string_view FamilyOfUnet(const Json& config) {
  const std::string width = FieldText(config, "cross_attention_dim");
  if (width == "768") return "Stable Diffusion 1";
  if (width == "1024") return "Stable Diffusion 2";
  if (width == "2048") return "Stable Diffusion XL";
  return width == "1280" ? "the refiner of Stable Diffusion XL" : "another network";
}

// Parses what need not be JSON: Python writes infinities by name. Of what cannot be read
// nothing is known.
Json ParseScheduler(const std::string& text) {
  const std::string plain =
      absl::StrReplaceAll(text, {{"-Infinity", "null"}, {"Infinity", "null"}, {"NaN", "null"}});
  auto parsed = ParseJsonObject(plain, "", kMaxAssembledConfigBytes);
  return parsed.ok() ? *std::move(parsed) : Json::object();
}

std::string TextOf(const Json& object, const char* key, const std::string& absent) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : absent;
}

// All that says what a network was trained to predict: the scheduler's file, with settings laid
// over.
std::string PredictionOf(const std::string& scheduler, const std::string& settings) {
  Json config = ParseScheduler(scheduler);
  config.update(ParseScheduler(settings));
  const auto rescale = config.find("rescale_betas_zero_snr");
  const bool rescaled = rescale != config.end() && *rescale == true;
  const bool edm = absl::StartsWith(TextOf(config, "_class_name", ""), "EDM");
  return absl::StrCat(TextOf(config, "prediction_type", "epsilon"),
                      rescaled ? " with zero terminal SNR" : "", edm ? " of EDM" : "");
}

std::string FlagOf(absl::string_view component) {
  return absl::StrReplaceAll(component, {{"_", "-"}});
}

class Assembler {
 public:
  Assembler(const CheckpointPaths& paths, const Reading& reading)
      : paths_(paths), reading_(reading) {}

  absl::StatusOr<CheckpointContents> Run() {
    RETURN_IF_ERROR(Read());
    RETURN_IF_ERROR(ConfigureParts());
    for (const auto& [name, path] : paths_.components) RETURN_IF_ERROR(Replace(name, path));
    Supply();
    SayPrediction();
    RETURN_IF_ERROR(ChooseScheduler());
    ChooseTokenizers();
    RETURN_IF_ERROR(CheckNothingLacks());
    NoteWhatIsElsewhere();
    return std::move(own_);
  }

 private:
  // True if the flag gives parts too: "--model=NAME=PATH,vae=PATH".
  bool IsOfModelFlag() const { return absl::StartsWith(paths_.flag, "model=") || IsOfVideos(); }
  bool IsOfVideos() const { return paths_.flag == "video"; }

  // The flag that gives a part, as users write it.
  std::string PartFlag(absl::string_view part) const {
    if (!IsOfModelFlag()) return absl::StrCat("--", part);
    return absl::StrCat("--", paths_.flag, "=...,", part);
  }

  std::string OtherFlag() const {
    const bool is_refiners = paths_.flag == "refiner";
    return PartFlag(is_refiners ? "refiner-components-from" : "components-from");
  }

  absl::Status Read() {
    Reading own = reading_;
    own.said.prediction_type = paths_.prediction_type;
    own.said.ema = paths_.ema && !IsReplaced("unet");
    absl::StatusOr<CheckpointContents> contents = ReadContents(paths_.path, own);
    if (!contents.ok()) return contents.status();
    own_ = *std::move(contents);
    if (!own_.is_file) RETURN_IF_ERROR(CheckVariantExists(paths_.path, own_, paths_.variant));
    if (paths_.components_from.empty()) return absl::OkStatus();
    absl::StatusOr<CheckpointContents> other = ReadContents(paths_.components_from, reading_);
    if (!other.ok()) return Annotated(other.status(), OtherFlag());
    other_ = *std::move(other);
    return Annotated(CheckOtherFamily(), OtherFlag());
  }

  // A refiner may take a base's parts. Where no class is said, the parts tell by their shapes.
  absl::Status CheckOtherFamily() const {
    const auto family = [](const CheckpointContents& contents) {
      return std::make_pair(absl::StartsWith(contents.pipeline_class, "StableDiffusionXL"),
                            absl::StartsWith(contents.pipeline_class, "StableVideoDiffusion"));
    };
    if (own_.pipeline_class.empty() || other_.pipeline_class.empty() ||
        family(own_) == family(other_)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        paths_.components_from, " is a ", Excerpt(other_.pipeline_class), ", and ", paths_.path,
        " a ", Excerpt(own_.pipeline_class), ": give a checkpoint of the same family"));
  }

  // True unless one of the two alone has EDM's latents, whose statistics no tensor of a VAE tells.
  bool HasSameLatents() const {
    const auto is_edm = [](const ComponentSource* scheduler) {
      return scheduler != nullptr && absl::StartsWith(scheduler->component().class_name, "EDM");
    };
    return is_edm(own_.Find("scheduler")) == is_edm(other_.Find("scheduler"));
  }

  // Source of `name` in the other checkpoint; null: none.
  SharedSource FromOther(const std::string& name) const {
    const auto found = other_.components.find(name);
    return found == other_.components.end() ? nullptr : found->second;
  }

  // The part of a file with the configuration of a source that has the same tensors; else null.
  // A source without tensors says nothing.
  static absl::StatusOr<SharedSource> Join(const SharedSource& part, const SharedSource& config) {
    if (config == nullptr) return nullptr;
    const absl::StatusOr<bool> same = HaveSameShapes(*part, *config);
    if (absl::IsNotFound(same.status())) return nullptr;
    RETURN_IF_ERROR(same.status());
    return *same ? MakeJoinedSource(part, config) : nullptr;
  }

  absl::Status ConfigureParts() {
    if (!own_.is_file) return absl::OkStatus();
    for (const char* name :
         {"unet", "vae", "vae_tiny", "text_encoder", "text_encoder_2", "image_encoder"}) {
      const auto part = own_.components.find(name);
      if (part == own_.components.end()) continue;
      if (absl::string_view(name) == "vae" && !HasSameLatents()) continue;
      const auto joined = Join(part->second, FromOther(name));
      if (!joined.ok()) return Annotated(joined.status(), OtherFlag());
      if (*joined == nullptr) continue;
      part->second = *joined;
      configured_.emplace_back(name);
    }
    return absl::OkStatus();
  }

  absl::Status Replace(const std::string& name, const std::string& path) {
    Reading reading = reading_;
    reading.said = {.prediction_type = paths_.prediction_type, .ema = paths_.ema};
    absl::StatusOr<ReadPart> read = ReadComponent(path, name, reading);
    if (!read.ok()) return Annotated(read.status(), PartFlag(FlagOf(name)));
    absl::StatusOr<SharedSource> source = Configure(name, path, std::move(read->source));
    if (!source.ok()) return Annotated(source.status(), PartFlag(FlagOf(name)));
    const SharedSource other = FromOther(name);
    std::erase(configured_, name);
    if (other != nullptr && (*source)->ConfigName() == other->ConfigName()) {
      configured_.push_back(name);
    }
    own_.components.insert_or_assign(name, *std::move(source));
    if (read->scheduler_settings.empty()) return absl::OkStatus();
    own_.scheduler_settings = std::move(read->scheduler_settings);
    own_.prediction_decided_by = absl::StrCat(read->prediction_decided_by, " of ", path);
    own_.notes.push_back(absl::StrCat(path, ": predicts as ", own_.scheduler_settings, ", by ",
                                      read->prediction_decided_by));
    return absl::OkStatus();
  }

  absl::StatusOr<SharedSource> Configure(const std::string& name, const std::string& path,
                                         SharedSource source) const {
    const auto found = own_.components.find(name);
    const SharedSource own = found == own_.components.end() ? nullptr : found->second;
    if (IsOneFile(path)) {
      for (const SharedSource& config : {own, FromOther(name)}) {
        ASSIGN_OR_RETURN(SharedSource joined, Join(source, config));
        if (joined != nullptr) return joined;
      }
    }
    if (name == "unet" && own != nullptr) RETURN_IF_ERROR(CheckFamily(*source, path, *own));
    return name == "vae" && IsOneFile(path) ? WithSettings(source, path, own) : source;
  }

  // A VAE of a file with the settings of the one that it replaces, or of the family.
  absl::StatusOr<SharedSource> WithSettings(const SharedSource& source, const std::string& path,
                                            const SharedSource& own) const {
    ASSIGN_OR_RETURN(Json config, ConfigOf(*source));
    Json settings;
    for (const SharedSource& other : {FromOther("vae"), own}) {
      if (other == nullptr || other->component().class_name != source->component().class_name) {
        continue;
      }
      ASSIGN_OR_RETURN(settings, ConfigOf(*other));
    }
    if (settings.is_null() && !own_.vae_settings.empty()) {
      ASSIGN_OR_RETURN(settings,
                       ParseJsonObject(own_.vae_settings, path, kMaxAssembledConfigBytes));
    }
    if (settings.is_null()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " says no scaling_factor, and ", paths_.path,
                       " has no VAE of which it could be taken: give a folder with config.json"));
    }
    for (const char* key : kVaeSettings) {
      if (settings.contains(key)) config[key] = settings[key];
    }
    return MakeJoinedSource(
        source, MakeFileSource("vae", path, FilePart{source->component(), config.dump(), {}}));
  }

  absl::Status CheckFamily(const ComponentSource& unet, const std::string& path,
                           const ComponentSource& own) const {
    ASSIGN_OR_RETURN(const Json config, ConfigOf(unet));
    ASSIGN_OR_RETURN(const Json own_config, ConfigOf(own));
    for (const char* field : kFamilyFields) {
      const std::string value = FieldText(config, field), own_value = FieldText(own_config, field);
      if (value == own_value) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path, " is a UNet of ", FamilyOfUnet(config), " (", field, " ", Excerpt(value), "), and ",
          paths_.path, " has one of ", FamilyOfUnet(own_config), " (", field, " ",
          Excerpt(own_value), "): give a UNet of the same family, or another --", paths_.flag));
    }
    return absl::OkStatus();
  }

  // Takes what is lacking, and a tiny VAE, of the other checkpoint.
  void Supply() {
    std::vector<std::string> wanted = own_.lacking;
    if (own_.Find("vae_tiny") == nullptr) wanted.emplace_back("vae_tiny");
    for (const std::string& name : wanted) {
      const SharedSource source = FromOther(name);
      if (source == nullptr || IsReplaced(name)) continue;
      own_.components.insert_or_assign(name, source);
      supplied_.push_back(name);
    }
  }

  bool IsReplaced(const std::string& name) const { return paths_.components.contains(name); }

  // The operator counts over all that files say.
  void SayPrediction() {
    if (paths_.prediction_type.empty()) return;
    Json said = Json::object();
    said["prediction_type"] = paths_.prediction_type;
    own_.said_prediction = said.dump();
    own_.prediction_decided_by = "--prediction-type";
    own_.notes.push_back(absl::StrCat(paths_.path, ": predicts as ", own_.said_prediction,
                                      ", by --prediction-type"));
  }

  absl::Status ChooseScheduler() {
    const SharedSource source = FromOther("scheduler");
    const ComponentSource* own = own_.Find("scheduler");
    if (!own_.is_file || source == nullptr || own == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string own_text, own->ConfigText());
    ASSIGN_OR_RETURN(const std::string text, source->ConfigText());
    const std::string predicts = PredictionOf(own_text, own_.scheduler_settings);
    const std::string others = PredictionOf(text, "");
    if (predicts == others) {
      own_.components.insert_or_assign("scheduler", source);
      configured_.emplace_back("scheduler");
      return absl::OkStatus();
    }
    own_.warnings.push_back(absl::StrCat(source->ConfigName(),
                                         " is not taken: it is for networks "
                                         "that predict ",
                                         Excerpt(others), ", and ", paths_.path, " predicts ",
                                         predicts));
    return absl::OkStatus();
  }

  void ChooseTokenizers() {
    for (const std::string suffix : {"", "_2"}) {
      const std::string encoder = "text_encoder" + suffix, tokenizer = "tokenizer" + suffix;
      const bool is_others =
          absl::c_linear_search(configured_, encoder) || absl::c_linear_search(supplied_, encoder);
      const SharedSource source = FromOther(tokenizer);
      if (!is_others || source == nullptr) continue;
      own_.components.insert_or_assign(tokenizer, source);
      if (!absl::c_linear_search(supplied_, tokenizer)) configured_.push_back(tokenizer);
    }
  }

  bool IsSupplied(const std::string& name) const {
    return absl::c_linear_search(supplied_, name) || IsReplaced(name);
  }

  // Says so of a file. Folders that are missing are errors where they are read.
  absl::Status CheckNothingLacks() const {
    std::vector<std::string> lacking;
    std::vector<std::string> flags;
    for (const std::string& name : own_.lacking) {
      if (IsSupplied(name)) continue;
      lacking.push_back(name);
      flags.push_back(absl::StrCat(PartFlag(FlagOf(name)), "=PATH"));
    }
    if (lacking.empty() || !own_.is_file) return absl::OkStatus();
    const std::string place = DescribePlace(paths_.path);
    return absl::NotFoundError(absl::StrCat(
        paths_.path, " lacks ", absl::StrJoin(lacking, ", "),
        paths_.components_from.empty()
            ? ""
            : absl::StrCat(", and ", paths_.components_from, " has none to supply"),
        ": ", OtherFlag(), "=PATH, another checkpoint of its family, supplies what is lacking",
        paths_.flag == "refiner" || IsOfVideos()
            ? ""
            : absl::StrCat("; or one by one: ", absl::StrJoin(flags, ", ")),
        place.empty() ? "" : "; ", place));
  }

  void NoteWhatIsElsewhere() {
    if (!configured_.empty()) {
      own_.notes.push_back(absl::StrCat(paths_.path, ": configured as in ", paths_.components_from,
                                        ": ", absl::StrJoin(configured_, ", ")));
    }
    if (supplied_.empty()) return;
    own_.notes.push_back(absl::StrCat(paths_.path, ": from ", paths_.components_from, ": ",
                                      absl::StrJoin(supplied_, ", ")));
    const bool encoders = absl::c_any_of(
        supplied_, [](const std::string& name) { return absl::StartsWith(name, "text_encoder"); });
    if (!encoders) return;
    own_.warnings.push_back(absl::StrCat(
        paths_.path, " has no text encoders, and takes those of ", paths_.components_from,
        ": if it was trained with its own, as Pony and Illustrious were, it draws worse so"));
  }

  const CheckpointPaths& paths_;
  const Reading& reading_;
  CheckpointContents own_;               // becomes the result
  CheckpointContents other_;             // in `components_from`; empty: none is given
  std::vector<std::string> configured_;  // by the other's configuration
  std::vector<std::string> supplied_;    // by the other
};

}  // namespace

absl::StatusOr<CheckpointContents> AssembleCheckpoint(const CheckpointPaths& paths,
                                                      const Reading& reading) {
  return Assembler(paths, reading).Run();
}

}  // namespace latentd::weights
