#include "tests/golden/picture_spec.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/latents_file.h"
#include "tests/golden/synthetic_checkpoint.h"

namespace latentd::golden {
namespace {

using nlohmann::json;
using pipeline::PictureSpec;

// Puts a field's value where it belongs; throws what nlohmann throws for another type.
using Setter = void (*)(const json& value, PictureSpec& spec);

template <auto Member>
void Set(const json& value, PictureSpec& spec) {
  auto& target = spec.*Member;
  if constexpr (requires { target.emplace(); }) {
    value.get_to(target.emplace());
  } else {
    value.get_to(target);
  }
}

// Sizes are [height, width] in diffusers, offsets [top, left].
template <auto Member>
void SetSize(const json& value, PictureSpec& spec) {
  spec.*Member = pipeline::Size{.width = value.at(1).get<int>(), .height = value.at(0).get<int>()};
}

template <auto Member>
void SetOffset(const json& value, PictureSpec& spec) {
  spec.*Member = pipeline::Offset{.top = value.at(0).get<int>(), .left = value.at(1).get<int>()};
}

// As make.py: a case with a scheduler has one over the checkpoint's config, of the checkpoint's
// class if it names none.
void SetScheduler(const json& value, PictureSpec& spec) {
  spec.scheduler.name = value.value("class", spec.scheduler.name);
  if (value.contains("config")) spec.scheduler.config = value["config"].dump();
}

void SetInterval(const json& value, PictureSpec& spec) {
  spec.guidance_interval = {value.at(0).get<double>(), value.at(1).get<double>()};
}

// Their images are read by ReadPictureCase.
void SetControls(const json& value, PictureSpec& spec) {
  for (const json& control : value) {
    pipeline::Control& one = spec.controls.emplace_back();
    for (const auto& [name, field] : control.items()) {
      if (name == "name") field.get_to(one.name);
      if (name == "scale") one.scale = field.get<double>();
      if (name == "start") one.start = field.get<double>();
      if (name == "end") one.end = field.get<double>();
      if (name == "mode") one.mode = field.get<int>();
    }
  }
}

// Scales of diffusers' tree.
std::vector<pipeline::BlockScale> BlockScalesIn(const json& tree) {
  const auto values = [](const json& value) {
    return value.is_array() ? value.get<std::vector<double>>()
                            : std::vector<double>{value.get<double>()};
  };
  std::vector<pipeline::BlockScale> scales;
  for (const auto& [side, below] : tree.items()) {
    if (!below.is_object()) {
      scales.push_back({side, values(below)});
      continue;
    }
    for (const auto& [block, value] : below.items()) {
      scales.push_back({absl::StrCat(side, ".", block), values(value)});
    }
  }
  return scales;
}

// Embeddings that a seed draws.
pipeline::HostTensor DrawnEmbeds(const json& embeds) {
  pipeline::HostTensor tensor{.shape = embeds.at("shape").get<std::vector<int64_t>>()};
  const device::Buffer drawn =
      noise::NoiseGenerator(embeds.at("seed").get<uint64_t>()).Normal(device::Shape(tensor.shape));
  const auto values = drawn.as<float>();
  tensor.data.assign(reinterpret_cast<const char*>(values.data()), drawn.bytes());
  return tensor;
}

// As controls.
void SetIpAdapters(const json& value, PictureSpec& spec) {
  for (const json& adapter : value) {
    pipeline::ImagePrompt& one = spec.ip_adapters.emplace_back();
    one.name = SyntheticNets::NameOfIpAdapter(adapter.value("name", ""));
    if (adapter.contains("scale")) one.scale = adapter["scale"].get<double>();
    one.scales = BlockScalesIn(adapter.value("scales", json::object()));
  }
}

void SetTask(const json& value, PictureSpec& spec) {
  const std::string task = value.get<std::string>();
  spec.refine = task == "ensemble";
  if (task == "refiner-image-to-image") spec.model = "refiner";
}

void SetGuidanceStop(const json& value, PictureSpec& spec) {
  const bool is_auto = value.get<std::string>() == "auto";
  spec.guidance_stop = is_auto ? pipeline::GuidanceStop::kAuto : pipeline::GuidanceStop::kNever;
}

void Skip(const json&, PictureSpec&) {}

void SetSyntax(const json& value, PictureSpec& spec) {
  const std::map<std::string, prompts::Syntax> syntaxes = {{"a1111", prompts::Syntax::kA1111},
                                                           {"comfyui", prompts::Syntax::kComfyUi},
                                                           {"compel", prompts::Syntax::kCompel}};
  const auto found = syntaxes.find(value.get<std::string>());
  // Another one is literal, which no case with one is.
  if (found != syntaxes.end()) spec.prompt_syntax = found->second;
}

// Latents that a seed of its own draws for an image of that size.
std::string NoiseFile(uint64_t seed, const PictureSpec& spec) {
  const pipeline::LatentSize size = {spec.height.value_or(0) / 8, spec.width.value_or(0) / 8};
  return pipeline::LatentsFile(noise::NoiseGenerator(seed).Normal({1, 4, size.height, size.width}),
                               size);
}

const std::map<std::string, Setter>& Setters() {
  static const auto* setters = new std::map<std::string, Setter>{
      {"name", Skip},
      {"task", SetTask},
      {"image", Skip},         // read by ReadPictureCase
      {"mask", Skip},          // likewise
      {"latents_seed", Skip},  // likewise
      {"vae_tiling", Skip},    // set for the pipeline, not for a request
      {"checkpoint", Skip},    // likewise
      {"preset", Skip},        // likewise
      {"loras", Skip},         // likewise
      {"embeddings", Skip},    // likewise
      {"text", Skip},          // false: the results have no states of text encoders
      {"prompt", Set<&PictureSpec::prompt>},
      {"prompt_2", Set<&PictureSpec::prompt_2>},
      {"negative_prompt", Set<&PictureSpec::negative_prompt>},
      {"negative_prompt_2", Set<&PictureSpec::negative_prompt_2>},
      {"width", Set<&PictureSpec::width>},
      {"height", Set<&PictureSpec::height>},
      {"num_inference_steps", Set<&PictureSpec::num_inference_steps>},
      {"guidance_scale", Set<&PictureSpec::guidance_scale>},
      {"guidance_rescale", Set<&PictureSpec::guidance_rescale>},
      {"guidance_interval", SetInterval},
      {"guidance_stop", SetGuidanceStop},
      {"feature_cache_interval", Set<&PictureSpec::feature_cache_interval>},
      {"eta", Set<&PictureSpec::eta>},
      {"clip_skip", Set<&PictureSpec::clip_skip>},
      {"clip_skip_a1111", Set<&PictureSpec::clip_skip_a1111>},
      {"prompt_syntax", SetSyntax},
      {"long_prompt",
       [](const json& value, PictureSpec& spec) {
         if (value.get<std::string>() == "chunk") spec.long_prompt = prompts::LongPrompt::kChunk;
       }},
      {"pieces", Skip},  // diffusers' input in place of prompts with a syntax
      {"timesteps", Set<&PictureSpec::timesteps>},
      {"sigmas", Set<&PictureSpec::sigmas>},
      {"seeds", Set<&PictureSpec::seeds>},
      {"original_size", SetSize<&PictureSpec::original_size>},
      {"target_size", SetSize<&PictureSpec::target_size>},
      {"crops_coords_top_left", SetOffset<&PictureSpec::crops_coords_top_left>},
      {"negative_original_size", SetSize<&PictureSpec::negative_original_size>},
      {"negative_target_size", SetSize<&PictureSpec::negative_target_size>},
      {"negative_crops_coords_top_left", SetOffset<&PictureSpec::negative_crops_coords_top_left>},
      {"aesthetic_score", Set<&PictureSpec::aesthetic_score>},
      {"negative_aesthetic_score", Set<&PictureSpec::negative_aesthetic_score>},
      {"denoising_end", Set<&PictureSpec::denoising_end>},
      {"strength", Set<&PictureSpec::strength>},
      {"mask_blur", Set<&PictureSpec::mask_blur>},
      {"padding_mask_crop", Set<&PictureSpec::padding_mask_crop>},
      {"preserve_unmasked", Set<&PictureSpec::preserve_unmasked>},
      {"differential", Set<&PictureSpec::differential>},
      {"denoising_start", Set<&PictureSpec::denoising_start>},
      {"scheduler", SetScheduler},
      {"controls", SetControls},
      {"guess_mode", Set<&PictureSpec::guess_mode>},
      {"ip_adapters", SetIpAdapters},
  };
  return *setters;
}

absl::Status SetField(const std::string& name, const json& value, PictureSpec& spec) {
  const auto setter = Setters().find(name);
  if (setter == Setters().end()) {
    return absl::InvalidArgumentError(absl::StrCat("the case's field ", name, " is not known"));
  }
  try {
    setter->second(value, spec);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the case's field ", name, ": ", error.what()));
  }
  return absl::OkStatus();
}

// A preset has these, and diffusers is told them.
void DropWhatThePresetDecides(PictureSpec& spec) {
  spec.scheduler = {};
  spec.num_inference_steps.reset();
  spec.guidance_scale.reset();
}

// Drops fields for which diffusers' pipelines for the task have no parameter, which make.py leaves
// out, and those that they pass over: the number of steps where the schedule is given.
void DropWhatDoesNotCount(const std::string& task, bool has_image, PictureSpec& spec) {
  if (!spec.timesteps.empty() || !spec.sigmas.empty()) spec.num_inference_steps.reset();
  if (has_image && !spec.padding_mask_crop) {
    spec.width.reset();
    spec.height.reset();
  }
  if (task != "refiner-image-to-image") return;
  spec.prompt_2.reset();
  spec.negative_prompt_2.reset();
  spec.clip_skip.reset();
}

absl::Status CheckTask(const std::string& task) {
  for (const char* known :
       {"text-to-image", "ensemble", "image-to-image", "refiner-image-to-image", "inpainting"}) {
    if (task == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the case's task ", task, " is not known"));
}

}  // namespace

absl::StatusOr<PictureRequest> ReadPictureCase(const json& picture_case,
                                               const std::string& pictures) {
  const std::string task = picture_case.value("task", "");
  RETURN_IF_ERROR(CheckTask(task));
  PictureRequest spec;
  // The demo checkpoint's; others' own.
  if (!picture_case.contains("checkpoint")) spec.scheduler.name = "EulerDiscreteScheduler";
  for (const auto& [name, value] : picture_case.items()) {
    RETURN_IF_ERROR(SetField(name, value, spec));
  }
  if (picture_case.contains("image")) {
    const std::string path = absl::StrCat(pictures, "/", picture_case.value("image", ""), "-0.png");
    ASSIGN_OR_RETURN(spec.inputs.image, ReadFile(path, size_t{1} << 26));
  }
  for (const json& control : picture_case.value("controls", json::array())) {
    const std::string path = absl::StrCat(pictures, "/", control.value("image", ""), "-0.png");
    ASSIGN_OR_RETURN(spec.inputs.control_images.emplace_back(), ReadFile(path, size_t{1} << 26));
  }
  for (const json& adapter : picture_case.value("ip_adapters", json::array())) {
    std::vector<std::string>& images = spec.inputs.ip_adapter_images.emplace_back();
    auto& embeds = spec.inputs.ip_adapter_embeds.emplace_back();
    if (adapter.contains("embeds")) {
      embeds = DrawnEmbeds(adapter["embeds"]);
      continue;
    }
    const json names = adapter.value("image", json());
    for (const json& name : names.is_array() ? names : json::array({names})) {
      const std::string path = absl::StrCat(pictures, "/", name.get<std::string>(), "-0.png");
      ASSIGN_OR_RETURN(images.emplace_back(), ReadFile(path, size_t{1} << 26));
    }
  }
  if (picture_case.contains("mask")) {
    const std::string path =
        absl::StrCat(pictures, "/masks/", picture_case.value("mask", ""), ".png");
    ASSIGN_OR_RETURN(spec.inputs.mask_image, ReadFile(path, size_t{1} << 26));
  }
  if (picture_case.contains("latents_seed")) {
    spec.inputs.latents = NoiseFile(picture_case.value("latents_seed", uint64_t{0}), spec);
  }
  if (picture_case.contains("preset")) DropWhatThePresetDecides(spec);
  DropWhatDoesNotCount(task, !spec.inputs.image.empty(), spec);
  return spec;
}

}  // namespace latentd::golden
