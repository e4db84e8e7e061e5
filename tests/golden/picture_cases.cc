#include "tests/golden/picture_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/compiler/graph_store.h"
#include "core/families/family/clip_text.h"
#include "core/image/decode.h"
#include "core/image/pixels/similarity.h"
#include "core/metrics/registry.h"
#include "core/pipeline/loading.h"
#include "core/pipeline/units/conditioning.h"
#include "core/weights/containers/safetensors.h"
#include "core/weights/weight_store.h"
#include "tests/golden/case_files.h"
#include "tests/golden/likeness.h"
#include "tests/golden/losses.h"
#include "tests/golden/picture_spec.h"
#include "tests/golden/synthetic_checkpoint.h"
#include "tests/support/on_host.h"
#include "tests/support/run_unit.h"

namespace latentd::golden {
namespace {

using device::Buffer;
using nlohmann::json;
using pipeline::Picture;
using Pictures = std::vector<std::unique_ptr<Picture>>;

// Keeps what is nearest to failing: the larger, or NaN.
void Widen(double distance, double& worst) {
  if (!(distance <= worst)) worst = distance;
}

absl::StatusOr<Pictures> Draw(const pipeline::Pipeline& pipeline, const PictureRequest& request) {
  ASSIGN_OR_RETURN(const pipeline::SharedPlan plan, pipeline.Resolve(request, request.inputs));
  ASSIGN_OR_RETURN(Pictures pictures,
                   pipeline.Start(plan, std::make_shared<pipeline::Inputs>(request.inputs)));
  for (const auto& picture : pictures) {
    while (picture->next != pipeline::UnitKind::kDone) RETURN_IF_ERROR(testing::RunUnit(*picture));
    const auto& overlay = picture->request->overlay;
    if (overlay == nullptr) continue;
    ASSIGN_OR_RETURN(picture->pixels, overlay->Over(picture->pixels));
  }
  return pictures;
}

// The hidden states of all encoders, along the features, as the UNet reads them.
absl::StatusOr<Buffer> Joined(device::Device& device, const pipeline::EncodedPrompt& prompt) {
  int64_t features = 0;
  std::vector<Buffer> states;
  for (const char* encoder : {"text_encoder", "text_encoder_2"}) {
    const auto part = prompt.find(families::HiddenStatesInput(encoder));
    if (part == prompt.end()) continue;
    ASSIGN_OR_RETURN(states.emplace_back(), testing::CopyToHost(device, part->second));
    features += part->second.shape()[2];
  }
  const int64_t tokens = states.front().shape()[1];
  Buffer joined = Buffer::Allocate(device::DType::kF32, {1, tokens, features});
  auto to = joined.as<float>().begin();
  for (int64_t token = 0; token < tokens; ++token) {
    for (const Buffer& part : states) {
      const int64_t width = part.shape()[2];
      to = std::copy_n(part.as<float>().begin() + token * width, width, to);
    }
  }
  return joined;
}

// By diffusers' names for them: "prompt_embeds", and "pooled_prompt_embeds" where a model has it.
using NamedText = std::vector<std::pair<std::string, Buffer>>;
absl::Status AddText(device::Device& device, const std::string& prefix,
                     const pipeline::EncodedPrompt& prompt, NamedText& pairs) {
  ASSIGN_OR_RETURN(const Buffer states, Joined(device, prompt));
  pairs.push_back({prefix + "prompt_embeds", states});
  const auto pooled = prompt.find("text_embeds");
  if (pooled != prompt.end()) pairs.push_back({prefix + "pooled_prompt_embeds", pooled->second});
  return absl::OkStatus();
}

// Distance of the first stage's text, which all images of the request share. It is encoded again:
// an image does not keep it.
absl::StatusOr<double> TextDistance(device::Device& device, const weights::TensorMap& expected,
                                    const Picture& picture) {
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  pipeline::PendingWork work;
  ASSIGN_OR_RETURN(const std::vector<pipeline::EncodedPrompt> rows,
                   pipeline::EncodePrompts(picture.request->stages.front(),
                                           picture.request->inputs.get(), *stream, work));
  RETURN_IF_ERROR(stream->Synchronize());
  NamedText pairs;
  RETURN_IF_ERROR(AddText(device, "", rows.back(), pairs));
  if (rows.size() > 1) RETURN_IF_ERROR(AddText(device, "negative_", rows.front(), pairs));
  double worst = 0;
  for (const auto& [name, actual] : pairs) {
    ASSIGN_OR_RETURN(const device::ConstBuffer wanted, FindTensor(expected, name));
    ASSIGN_OR_RETURN(const Buffer on_host, testing::CopyToHost(device, actual));
    ASSIGN_OR_RETURN(const double distance, Distance(wanted, on_host, Scale::kRelative));
    Widen(distance, worst);
  }
  return worst;
}

// Distance in one tensor with a row for each image.
absl::StatusOr<double> LatentDistance(device::Device& device, const weights::TensorMap& expected,
                                      const std::string& name, const Pictures& pictures,
                                      Buffer Picture::*member, Scale scale = Scale::kAbsolute) {
  ASSIGN_OR_RETURN(const device::ConstBuffer wanted, FindTensor(expected, name));
  if (wanted.shape()[0] != static_cast<int64_t>(pictures.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has another number of rows than there are pictures"));
  }
  double worst = 0;
  for (size_t i = 0; i < pictures.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    ASSIGN_OR_RETURN(const Buffer on_host, testing::CopyToHost(device, pictures[i].get()->*member));
    ASSIGN_OR_RETURN(const double distance, Distance(wanted.Rows(row, row + 1), on_host, scale));
    Widen(distance, worst);
  }
  return worst;
}

absl::StatusOr<image::Image> ReadPicture(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string png, ReadFile(path, size_t{1} << 26));
  return image::Decode(png);
}

absl::StatusOr<image::Image> ReadPicture(const std::string& path, size_t number) {
  return ReadPicture(absl::StrCat(path, "-", number, ".png"));
}

struct PixelDistances {
  double largest = 0;
  double mean = 0;  // mean of the image where it is largest
};

absl::StatusOr<PixelDistances> PixelDistance(const std::string& path, const Pictures& pictures) {
  PixelDistances worst;
  for (size_t i = 0; i < pictures.size(); ++i) {
    ASSIGN_OR_RETURN(const image::Image wanted, ReadPicture(path, i));
    const image::Image& got = pictures[i]->pixels;
    if (got.width != wanted.width || got.height != wanted.height) {
      return absl::InvalidArgumentError(absl::StrCat("a picture of ", got.width, " x ", got.height,
                                                     " instead of ", wanted.width, " x ",
                                                     wanted.height));
    }
    double sum = 0;
    for (size_t byte = 0; byte < wanted.rgb.size(); ++byte) {
      const int difference = std::abs(int{wanted.rgb[byte]} - int{got.rgb[byte]});
      Widen(difference, worst.largest);
      sum += difference;
    }
    Widen(sum / static_cast<double>(wanted.rgb.size()), worst.mean);
  }
  return worst;
}

// Similarity of the image that is least like diffusers'.
absl::StatusOr<double> LeastSimilarity(const std::string& path, const Pictures& pictures) {
  double least = 1;
  for (size_t i = 0; i < pictures.size(); ++i) {
    ASSIGN_OR_RETURN(const image::Image wanted, ReadPicture(path, i));
    ASSIGN_OR_RETURN(const double similarity,
                     image::StructuralSimilarity(wanted, pictures[i]->pixels));
    least = std::min(least, similarity);
  }
  return least;
}

// Similarities of the case's images with other seeds, one each.
absl::StatusOr<std::vector<double>> SimilaritiesOfSeeds(const std::string& name,
                                                        const LikenessCases& cases,
                                                        const pipeline::Pipeline& pipeline,
                                                        PictureRequest spec) {
  spec.seeds = cases.SeedsOf(name);
  std::vector<double> similarities;
  if (spec.seeds.empty()) return similarities;
  ASSIGN_OR_RETURN(const Pictures pictures, Draw(pipeline, spec));
  for (size_t i = 0; i < pictures.size(); ++i) {
    ASSIGN_OR_RETURN(const image::Image wanted,
                     ReadPicture(cases.PicturePath(name, spec.seeds[i])));
    ASSIGN_OR_RETURN(similarities.emplace_back(),
                     image::StructuralSimilarity(wanted, pictures[i]->pixels));
  }
  return similarities;
}

pipeline::LoadOptions LoadOptionsOf(const Options& options) {
  const std::string refiner = options.checkpoint + "/refiner";
  pipeline::LoadOptions load{.base = options.checkpoint + "/base",
                             .refiner = std::filesystem::exists(refiner) ? refiner : ""};
  for (absl::string_view component : pipeline::kComponentNames) {
    // fp8 is of UNets; the others are in bf16 beside it.
    const bool beside =
        options.precision == device::DType::kF8E4M3 && !absl::StartsWith(component, "unet_");
    load.precision[std::string(component)] = beside ? device::DType::kBF16 : options.precision;
  }
  load.f8_convolutions = options.f8_convolutions;
  load.feature_cache = true;
  return load;
}

// Facts of a case that its pipeline is loaded by.
struct LoadedBy {
  std::string checkpoint;  // a name in checkpoints.json; empty: the checkpoint of the options
  std::string preset;
  bool tiled = false;
  std::string loras = {};  // as the case has them
  bool has_words = false;  // textual inversions are in its prompts
  bool has_controls = false;
  bool has_ip_adapters = false;

  auto operator<=>(const LoadedBy&) const = default;
};

LoadedBy LoadedByOf(const json& picture_case) {
  return {
      picture_case.value("checkpoint", ""),    picture_case.value("preset", ""),
      picture_case.value("vae_tiling", false), picture_case.value("loras", json::array()).dump(),
      picture_case.contains("embeddings"),     picture_case.contains("controls"),
      picture_case.contains("ip_adapters")};
}

// Files of a case's list, which are in a folder beside the cases.
std::vector<pipeline::LoraFile> LorasOf(const json& picture_case, const Options& options) {
  std::vector<pipeline::LoraFile> loras;
  for (const json& lora : picture_case.value("loras", json::array())) {
    loras.push_back(
        {.path = absl::StrCat(options.cases, "/loras/", lora.value("name", ""), ".safetensors"),
         .unet_weight = lora.value("unet_weight", 1.0),
         .text_encoder_weight = lora.value("text_encoder_weight", 1.0)});
  }
  return loras;
}

// True if the results have the states of text encoders. Weights act behind these: the pictures show
// them.
bool HasText(const json& picture_case) {
  return picture_case.value("text", true) && !picture_case.contains("pieces");
}

// The cases' pipelines, each loaded when first asked for.
class Pipelines {
 public:
  Pipelines(const Options& options, backends::Backend& backend)
      : options_(options),
        device_(backend.device()),
        weights_(backend),
        graphs_(backend, SystemClock(), registry_, /*disk=*/nullptr,
                {.compile = {options.skip_passes, backends::reference::EvaluateRecipe}}) {}

  device::Device& device() const { return device_; }

  // So that the next case of the same size loads nothing.
  void Keep(const std::vector<pipeline::GraphHandle>& graphs) {
    kept_.insert(kept_.end(), graphs.begin(), graphs.end());
  }

  absl::StatusOr<const pipeline::Pipeline*> Of(const json& picture_case) {
    const LoadedBy by = LoadedByOf(picture_case);
    std::unique_ptr<const pipeline::Pipeline>& loaded = loaded_[by];
    if (loaded == nullptr) {
      pipeline::LoadOptions options = LoadOptionsOf(options_);
      if (!by.checkpoint.empty()) {
        ASSIGN_OR_RETURN(options.base, FolderOf(by.checkpoint));
        options.refiner.clear();
      }
      options.preset = by.preset;
      options.base_parts.loras = LorasOf(picture_case, options_);
      if (by.tiled) options.vae_tiling_above = 0;
      if (by.has_words) options.adapters = &embeddings_;
      if (by.has_controls || by.has_ip_adapters) {
        ASSIGN_OR_RETURN(options.adapters, NewCatalogueOfNets());
      }
      ASSIGN_OR_RETURN(loaded, pipeline::LoadPipeline(options, weights_, graphs_));
    }
    return loaded.get();
  }

 private:
  absl::StatusOr<std::string> FolderOf(const std::string& checkpoint) {
    std::unique_ptr<const SyntheticCheckpoint>& written = written_[checkpoint];
    if (written == nullptr) {
      ASSIGN_OR_RETURN(written, SyntheticCheckpoint::Write(options_, checkpoint));
    }
    return written->path();
  }

  // Each is for the models of one pipeline.
  absl::StatusOr<adapters::Catalogue*> NewCatalogueOfNets() {
    if (nets_ == nullptr) {
      ASSIGN_OR_RETURN(nets_, SyntheticNets::Write(options_));
    }
    catalogues_.push_back(
        std::make_unique<adapters::Catalogue>(adapters::FolderOnDisk(nets_->path())));
    return catalogues_.back().get();
  }

  const Options& options_;
  device::Device& device_;
  weights::WeightStore weights_;
  metrics::Registry registry_;
  compiler::GraphStore graphs_;
  adapters::Catalogue embeddings_{
      adapters::FolderOnDisk(absl::StrCat(options_.cases, "/embeddings"))};
  std::unique_ptr<const SyntheticNets> nets_;
  std::vector<std::unique_ptr<adapters::Catalogue>> catalogues_;
  std::map<std::string, std::unique_ptr<const SyntheticCheckpoint>> written_;
  std::map<LoadedBy, std::unique_ptr<const pipeline::Pipeline>> loaded_;
  std::vector<pipeline::GraphHandle> kept_;
};

absl::StatusOr<std::vector<Measure>> RunCase(const json& picture_case, const std::string& folder,
                                             Pipelines& pipelines) {
  ASSIGN_OR_RETURN(const pipeline::Pipeline* pipeline, pipelines.Of(picture_case));
  const std::string path = absl::StrCat(folder, "/", picture_case.value("name", ""));
  ASSIGN_OR_RETURN(const PictureRequest spec, ReadPictureCase(picture_case, folder));
  ASSIGN_OR_RETURN(const weights::TensorMap expected,
                   weights::ReadSafetensors(path + ".safetensors"));
  ASSIGN_OR_RETURN(const Pictures pictures, Draw(*pipeline, spec));
  pipelines.Keep(pictures.front()->request->graphs);
  std::vector<Measure> measures;
  if (HasText(picture_case)) {
    ASSIGN_OR_RETURN(const double text,
                     TextDistance(pipelines.device(), expected, *pictures.front()));
    measures.push_back({"text", text, kTextTolerance});
  }
  ASSIGN_OR_RETURN(double latents, LatentDistance(pipelines.device(), expected, "latents", pictures,
                                                  &Picture::latents));
  if (expected.contains("latents_handed_over")) {
    ASSIGN_OR_RETURN(const double handed,
                     LatentDistance(pipelines.device(), expected, "latents_handed_over", pictures,
                                    &Picture::handed_over));
    Widen(handed, latents);
  }
  ASSIGN_OR_RETURN(const PixelDistances pixels, PixelDistance(path, pictures));
  measures.push_back({"latents", latents, kLatentTolerance});
  measures.push_back({"pixels", pixels.largest, kPixelTolerance});
  return measures;
}

// Losses of diffusers and results of a run in a lesser precision.
struct LesserRun {
  Losses losses;
  LikenessCases likeness;
  double median_loss_factor;
  std::vector<double> similarities = {};  // similarities of all images
};

// The same in a lesser precision: how like diffusers' in float32 it is, and beside what diffusers
// itself loses, where that is known.
absl::StatusOr<std::vector<Measure>> RunLesserCase(const json& picture_case,
                                                   const std::string& folder, LesserRun& run,
                                                   Pipelines& pipelines) {
  ASSIGN_OR_RETURN(const pipeline::Pipeline* pipeline, pipelines.Of(picture_case));
  const std::string name = picture_case.value("name", "");
  const std::string path = absl::StrCat(folder, "/", name);
  ASSIGN_OR_RETURN(const PictureRequest spec, ReadPictureCase(picture_case, folder));
  ASSIGN_OR_RETURN(const weights::TensorMap expected,
                   weights::ReadSafetensors(path + ".safetensors"));
  ASSIGN_OR_RETURN(const Pictures pictures, Draw(*pipeline, spec));
  pipelines.Keep(pictures.front()->request->graphs);
  ASSIGN_OR_RETURN(const double latents,
                   LatentDistance(pipelines.device(), expected, "latents", pictures,
                                  &Picture::latents, Scale::kRootMeanSquare));
  ASSIGN_OR_RETURN(const PixelDistances pixels, PixelDistance(path, pictures));
  std::vector<Measure> measures;
  const auto compare = [&](const char* what, double loss, std::optional<double> of_diffusers) {
    if (of_diffusers) measures.push_back({what, loss, *of_diffusers * kPictureLossFactor});
  };
  compare("latents, root mean square", latents, run.losses.Of(name, "latents"));
  compare("pixels, mean", pixels.mean, run.losses.Of(name, "pixels"));
  ASSIGN_OR_RETURN(std::vector<double> similarities,
                   SimilaritiesOfSeeds(name, run.likeness, *pipeline, spec));
  ASSIGN_OR_RETURN(similarities.emplace_back(), LeastSimilarity(path, pictures));
  absl::c_copy(similarities, std::back_inserter(run.similarities));
  absl::c_copy(
      MeasureLikeness(similarities, run.likeness.OfDiffusers(name), run.median_loss_factor),
      std::back_inserter(measures));
  return measures;
}

using RunOne = std::function<absl::StatusOr<std::vector<Measure>>(const json& picture_case)>;

void RunSelected(const json& cases, const Options& options, const RunOne& run, Report& report) {
  for (const json& picture_case : cases) {
    const std::string name = picture_case.value("name", "");
    if (!options.Selects(name)) continue;
    const auto measures = run(picture_case);
    if (measures.ok()) {
      report.Measured(name, *measures);
    } else {
      report.Failed(name, measures.status());
    }
  }
}

void RunLesserCases(const Options& options, const json& cases, const std::string& folder,
                    Pipelines& pipelines, Report& report) {
  absl::StatusOr<Losses> losses = Losses::Read(options);
  if (!losses.ok()) return report.Failed("pictures", losses.status());
  absl::StatusOr<LikenessCases> likeness = LikenessCases::Read(options);
  if (!likeness.ok()) return report.Failed("pictures", likeness.status());
  const bool bf16 = options.IsInBf16();
  LesserRun run{*std::move(losses), *std::move(likeness),
                bf16 ? kMedianLossFactor : kMedianLossFactorOfFp16};
  RunSelected(
      cases, options, [&](const json& one) { return RunLesserCase(one, folder, run, pipelines); },
      report);
  // A case alone is judged above.
  if (run.similarities.empty() || !options.case_name.empty()) return;
  report.Measured("all pictures", {{"SSIM, median", LikenessOf(run.similarities).median,
                                    kLeastMedianSimilarity, Bound::kAtLeast}});
}

}  // namespace

void RunPictureCases(const Options& options, backends::Backend& backend, Report& report) {
  const absl::StatusOr<json> cases = ReadJsonFile(options.cases + "/pictures.json");
  if (!cases.ok()) return report.Failed("pictures", cases.status());
  const std::string folder = options.cases + "/pictures";
  Pipelines pipelines(options, backend);
  if (options.IsExact()) {
    const RunOne run = [&](const json& one) { return RunCase(one, folder, pipelines); };
    return RunSelected(*cases, options, run, report);
  }
  RunLesserCases(options, *cases, folder, pipelines, report);
}

}  // namespace latentd::golden
