#include "server/http/openai/openai_request.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/image/transparency.h"
#include "server/http/openai/openai_values.h"
#include "server/http/request/field_values.h"
#include "server/http/request/request_builder.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;

constexpr double kEditStrength = 0.6, kVariationStrength = 0.7;
constexpr int kMostPartials = 3;
constexpr int kDefaultSteps = 50;

// Other names of fields, which peers and OpenAI have.
constexpr std::pair<absl::string_view, absl::string_view> kOtherNames[] = {
    {"n", "num_images_per_prompt"},
    {"steps", "num_inference_steps"},
    {"step", "num_inference_steps"},
    {"cfg_scale", "guidance_scale"},
    {"rng_seed", "seed"},
    {"denoising_strength", "strength"},
};

// Names of `quality`, and the effort of each; none: the server's default.
constexpr std::pair<absl::string_view, v1::Effort> kQualities[] = {
    {"auto", v1::EFFORT_UNSPECIFIED}, {"standard", v1::EFFORT_UNSPECIFIED},
    {"low", v1::EFFORT_FAST},         {"medium", v1::EFFORT_HIGH},
    {"high", v1::EFFORT_FULL},        {"hd", v1::EFFORT_FULL},
};

// Fields that change no picture, and are not looked at.
const std::set<std::string>& WithoutEffect() {
  static const auto& names = *new std::set<std::string>{
      "style", "moderation", "user", "input_fidelity", "safety_identifier", "metadata"};
  return names;
}

class ImagesReader {
 public:
  ImagesReader(ImagesRoute route, const Offer& offer, v1::GenerateRequest& request,
               ImagesForm& form)
      : route_(route), models_(offer.models), builder_(offer.defaults, request), form_(form) {}

  absl::Status Read(const Request& http) {
    RETURN_IF_ERROR(ReadFields(
        http,
        {.file = [&](const auto& name, std::string bytes) { ReadFile(name, std::move(bytes)); },
         .model = [&](const auto& name) { return ReadModel(name); },
         .key = [&](const auto& name, const json& value) { ReadKey(name, value); }}));
    SetDefaults();
    form_.names = builder_.names();
    return builder_.status();
  }

 private:
  void ReadFile(const std::string& name, std::string bytes) {
    if (name == "image" || name == "image[]" || name == "image[0]") {
      return builder_.SetImage(std::move(bytes), "image");
    }
    if (IsMask(name)) return SetMask(name, bytes);
    if (name == "mask_image") {
      builder_.Call("mask_image", name);
      builder_.request().set_mask_image(std::move(bytes));
    } else if (name == "latents") {
      builder_.Call("latents", name);
      builder_.request().set_latents(std::move(bytes));
    } else {
      builder_.RefuseUnknown(name);
    }
  }

  absl::Status ReadModel(const std::string& name) {
    form_.as_url = name == "dall-e-2" || name == "dall-e-3";
    ASSIGN_OR_RETURN(const ServedModel model, FindModel(models_, name));
    builder_.Call("model", "model");
    if (!name.empty()) builder_.request().set_model(model.component);
    default_steps_ = model.default_steps > 0 ? model.default_steps : kDefaultSteps;
    return absl::OkStatus();
  }

  void ReadKey(const std::string& name, const json& value) {
    if (ReadOwn(name, value)) return;
    for (const auto& [other, field] : kOtherNames) {
      if (name == other) return SetOther(field, value, name);
    }
    if (name == "seed") return SetOther(name, value, name);
    if (builder_.IsField(name)) return builder_.Set(name, value, name);
    builder_.RefuseUnknown(name);
  }

  // Fields of OpenAI's own kind. False: it is none.
  bool ReadOwn(const std::string& name, const json& value) {
    if (WithoutEffect().count(name) > 0) return true;
    if (name == "size") return ReadSize(value, builder_), true;
    if (name == "response_format") return ReadResponseFormat(value), true;
    if (name == "output_format") return ReadOutputFormat(value), true;
    if (name == "output_compression") return ReadCompression(value), true;
    if (name == "background") return ReadBackground(value), true;
    if (name == "quality") return ReadQuality(value), true;
    if (name == "stream") return ReadStream(value), true;
    if (name == "partial_images") return ReadPartials(value), true;
    if (name == "latentd_events") return ReadOwnEvents(value), true;
    if (name == "lora" || name == "lora_alphas") return ReadLoras(name, value), true;
    return ReadPicture(name, value);
  }

  bool ReadPicture(const std::string& name, const json& value) {
    const bool is_mask = IsMask(name);
    if (!is_mask && name != "image" && name != "images" && name != "image[]") return false;
    ReadPictures(name, value, builder_, [&](std::string bytes) {
      if (is_mask) return SetMask(name, bytes);
      builder_.SetImage(std::move(bytes), name);
    });
    return true;
  }

  // A seed of -1 is any.
  void SetOther(absl::string_view field, const json& value, const std::string& name) {
    if (field == "seed" && IntegerOf(value) == -1) return;
    builder_.Set(field, value, name);
  }

  std::string TextOf(const json& value) const {
    return value.is_string() ? value.get<std::string>() : "";
  }

  // OpenVINO's {"film": 0.8}, as adapters. Names alone: stable-diffusion.cpp's list has paths.
  void ReadLoras(const std::string& name, const json& value) {
    // A form has it as text.
    const json weights = value.is_string() ? json::parse(TextOf(value), nullptr, false) : value;
    if (!weights.is_object()) {
      return builder_.Refuse(
          name,
          "must be an object of names and weights, such as {\"film\": 0.8}; no path is taken");
    }
    json adapters = json::array();
    for (const auto& [adapter, weight] : weights.items()) {
      adapters.push_back({{"name", adapter}, {"weight", weight}});
    }
    builder_.Set("adapters", adapters, name);
  }

  void ReadResponseFormat(const json& value) {
    const std::string text = TextOf(value);
    if (text != "url" && text != "b64_json") {
      return builder_.Refuse("response_format",
                             absl::StrCat("must be url or b64_json, is ", Excerpt(value)));
    }
    form_.as_url = text == "url";
  }

  void ReadOutputFormat(const json& value) {
    const std::string text = TextOf(value);
    v1::Output& output = *builder_.request().mutable_output();
    builder_.Call("output.format", "output_format");
    if (text == "png") {
      output.set_format(v1::FORMAT_PNG);
    } else if (text == "jpeg" || text == "jpg") {
      output.set_format(v1::FORMAT_JPEG);
    } else if (text == "webp") {
      output.set_format(v1::FORMAT_WEBP);
    } else {
      builder_.Refuse("output_format",
                      absl::StrCat("must be png, jpeg or webp, is ", Excerpt(value)));
    }
  }

  void ReadCompression(const json& value) {
    const std::optional<int64_t> quality = IntegerOf(value);
    if (!quality || *quality < 0 || *quality > 100) {
      return builder_.Refuse("output_compression",
                             absl::StrCat("must be from 0 to 100, is ", Excerpt(value)));
    }
    compression_ = std::max<int>(static_cast<int>(*quality), 1);
  }

  void ReadBackground(const json& value) {
    const std::string text = TextOf(value);
    if (text == "auto" || text == "opaque") return;
    builder_.RefuseUnsupported("background", "must be auto or opaque: pictures have no alpha");
  }

  void ReadQuality(const json& value) {
    form_.quality = TextOf(value);
    for (const auto& [name, effort] : kQualities) {
      if (form_.quality == name) return void(by_quality_ = effort);
    }
    builder_.Refuse("quality", absl::StrCat("must be auto, low, medium, high, standard or hd, is ",
                                            Excerpt(value)));
  }

  void ReadStream(const json& value) {
    const std::optional<bool> stream = BooleanOf(value);
    if (!stream) return builder_.Refuse("stream", "must be true or false");
    form_.stream = *stream;
  }

  void ReadOwnEvents(const json& value) {
    const std::optional<bool> wanted = BooleanOf(value);
    if (!wanted) return builder_.Refuse("latentd_events", "must be true or false");
    form_.own_events = *wanted;
  }

  void ReadPartials(const json& value) {
    const std::optional<int64_t> partials = IntegerOf(value);
    if (!partials || *partials < 0 || *partials > kMostPartials) {
      return builder_.Refuse("partial_images", absl::StrCat("must be from 0 to ", kMostPartials,
                                                            ", is ", Excerpt(value)));
    }
    form_.partial_images = static_cast<int>(*partials);
  }

  static bool IsMask(absl::string_view name) {
    return name == "mask" || name == "mask[]" || name == "mask[0]";
  }

  // Transparent parts are drawn over. All of it: that is an edit without a mask.
  void SetMask(const std::string& name, const std::string& bytes) {
    if (route_ != ImagesRoute::kEdits) return builder_.RefuseUnsupported(name, "is for edits");
    if (std::exchange(has_mask_, true)) return builder_.Refuse(name, "is given twice");
    absl::StatusOr<image::TransparencyMask> mask = image::MaskOfTransparency(bytes);
    if (!mask.ok()) return builder_.Refuse(name, std::string(mask.status().message()));
    if (mask->draws_all) return;
    builder_.Call("mask_image", name);
    builder_.request().set_mask_image(std::move(mask->png));
  }

  void SetDefaults() {
    v1::GenerateRequest& request = builder_.request();
    const bool has_quality = by_quality_ != v1::EFFORT_UNSPECIFIED;
    if (has_quality && !builder_.IsSet("effort")) request.set_effort(by_quality_);
    builder_.SetDefaults();
    const bool has_policy = request.bucket_policy() != v1::BUCKET_POLICY_UNSPECIFIED;
    if (!has_policy) request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
    SetOutput(request);
    if (route_ != ImagesRoute::kGenerations) SetEdit(request);
    // Partials of S steps are evenly spread, and none is of the last one.
    const bool shows = form_.stream && form_.partial_images > 0 && !request.has_previews();
    if (!shows) return;
    const int steps =
        request.has_num_inference_steps() ? request.num_inference_steps() : default_steps_;
    const int parts = form_.partial_images + 1;
    request.mutable_previews()->set_every_n_steps(std::max(1, (steps + parts - 1) / parts));
  }

  void SetOutput(v1::GenerateRequest& request) {
    const v1::Format format = request.output().format();
    const bool takes_quality = format == v1::FORMAT_JPEG || format == v1::FORMAT_WEBP;
    if (compression_ && takes_quality) request.mutable_output()->set_quality(*compression_);
    if (format == v1::FORMAT_JPEG) form_.format = "jpeg";
    if (format == v1::FORMAT_WEBP) form_.format = "webp";
  }

  void SetEdit(v1::GenerateRequest& request) {
    const bool edits = route_ == ImagesRoute::kEdits;
    if (!request.has_image()) builder_.Refuse("image", "is missing: the picture to start from");
    if (!edits && !request.prompt().empty()) {
      builder_.Refuse("prompt", "is for edits: variations have none");
    }
    // No request has an empty prompt; a blank is encoded to the same.
    if (!edits && request.prompt().empty()) request.set_prompt(" ");
    const bool says =
        request.has_strength() || request.has_denoising_start() || request.has_mask_image();
    if (!says) request.set_strength(edits ? kEditStrength : kVariationStrength);
  }

  const ImagesRoute route_;
  const std::vector<ServedModel>& models_;
  RequestBuilder builder_;
  ImagesForm& form_;
  int default_steps_ = kDefaultSteps;
  v1::Effort by_quality_ = v1::EFFORT_UNSPECIFIED;
  std::optional<int> compression_;
  bool has_mask_ = false;
};

}  // namespace

absl::Status ReadImagesRequest(const Request& http, ImagesRoute route, const Offer& offer,
                               v1::GenerateRequest& request, ImagesForm& form) {
  return ImagesReader(route, offer, request, form).Read(http);
}

}  // namespace latentd::server::http
