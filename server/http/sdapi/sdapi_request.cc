#include "server/http/sdapi/sdapi_request.h"

#include <array>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "server/generation/conversion/request_form.h"
#include "server/http/request/field_values.h"
#include "server/http/request/request_builder.h"
#include "server/http/request/request_values.h"
#include "server/http/sdapi/prompt_networks.h"
#include "server/http/sdapi/unread_keys.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;

// The web UI's.
constexpr double kDenoisingStrength = 0.75;
constexpr int kMaskBlur = 4;
constexpr int kOriginalContent = 1;  // its inpainting_fill that is drawn here

// Keys that are a field by another name.
constexpr std::pair<absl::string_view, absl::string_view> kFields[] = {
    {"prompt", "prompt"},
    {"negative_prompt", "negative_prompt"},
    {"steps", "num_inference_steps"},
    {"cfg_scale", "guidance_scale"},
    {"width", "width"},
    {"height", "height"},
};

// Keys that draw something else than this server where they have another value than one of these.
struct Neutral {
  absl::string_view key;
  std::array<absl::string_view, 3> values;  // as JSON; null is always one
  absl::string_view why;
};
constexpr Neutral kNeutral[] = {
    {"tiling", {"false"}, "seamless pictures are not drawn here"},
    {"restore_faces", {"false"}, "faces are not restored here"},
    {"enable_hr", {"false"}, "there is no second pass here: draw at the size, or use img2img"},
    {"inpainting_mask_invert",
     {"0", "false", "\"0\""},
     "masks are not turned over here: white is drawn over"},
    {"subseed_strength", {"0", "0.0"}, "variation seeds are not mixed in here"},
    {"script_name", {"\"\"", "\"None\""}, "there are no scripts here"},
    {"alwayson_scripts", {"{}"}, "there are no scripts here"},
    {"styles", {"[]"}, "there are no styles here: write them into the prompt"},
    {"resize_mode", {"0"}, "pictures are resized only (0)"},
    {"s_churn", {"0", "0.0"}, "samplers have no churn here"},
    {"s_min_uncond", {"0", "0.0"}, "guidance is not left out by noise here: guidance_interval is"},
    {"seed_resize_from_w", {"-1", "0"}, "seeds are not resized here"},
    {"seed_resize_from_h", {"-1", "0"}, "seeds are not resized here"},
};

std::string Squeezed(absl::string_view name) {
  std::string squeezed;
  for (const char c : absl::AsciiStrToLower(name)) {
    if (c != ' ' && c != '_' && c != '-') squeezed.push_back(c);
  }
  return squeezed;
}

class SdapiReader {
 public:
  SdapiReader(bool image_to_image, const Offer& offer, v1::GenerateRequest& request,
              SdapiForm& form)
      : image_to_image_(image_to_image),
        models_(offer.models),
        loras_(offer.loras),
        builder_(offer.defaults, request),
        form_(form) {}

  absl::Status Read(const Request& http) {
    ASSIGN_OR_RETURN(const RequestValues values, ReadValues(http));
    object_ = &values.object;
    for (const auto& [key, value] : object_->items()) {
      if (value.is_null()) continue;
      Echo(key, value);
      ReadKey(key, value);
    }
    ReadSampler();
    ReadCount();
    ReadInpainting();
    SetDefaults();
    form_.names = builder_.names();
    RETURN_IF_ERROR(model_status_);
    return builder_.status();
  }

 private:
  const json& At(const char* key) const {
    static const json& none = *new json();
    const auto found = object_->find(key);
    return found == object_->end() ? none : *found;
  }

  void Echo(const std::string& key, const json& value) {
    static const auto& pictures =
        *new std::set<std::string>{"init_images", "mask", "image", "mask_image", "latents"};
    form_.parameters[key] = pictures.count(key) > 0 ? json() : value;
  }

  void ReadKey(const std::string& key, const json& value) {
    for (const Neutral& neutral : kNeutral) {
      if (key == neutral.key) return CheckNeutral(neutral, value);
    }
    for (const auto& [other, field] : kFields) {
      if (key == other) return builder_.Set(field, value, key);
    }
    if (ReadOwn(key, value)) return;
    if (const std::optional<std::string> wrong = JudgeUnread(key, value)) {
      if (!wrong->empty()) builder_.Refuse(key, *wrong);
      return;
    }
    if (absl::StartsWith(key, "hr_")) return;
    if (builder_.IsField(key)) return builder_.Set(key, value, key);
    form_.warnings.push_back(absl::StrCat(absl::string_view(key).substr(0, 64), " was not read"));
  }

  // False: it is read elsewhere, or no key of the web UI.
  bool ReadOwn(const std::string& key, const json& value) {
    if (key == "seed") return ReadSeed(value), true;
    if (key == "init_images") return ReadImages(value), true;
    if (key == "mask") return ReadMask(value), true;
    if (key == "denoising_strength") return ReadStrength(value), true;
    if (key == "clip_skip") return ReadClipSkip(key, value), true;
    if (key == "override_settings") return ReadSettings(value), true;
    if (key == "force_task_id") return ReadTask(value), true;
    if (key == "refiner_checkpoint") return ReadRefiner(value), true;
    if (key == "send_images") return ReadSendImages(value), true;
    return key == "sampler_name" || key == "scheduler" || key == "batch_size" || key == "n_iter";
  }

  void CheckNeutral(const Neutral& neutral, const json& value) {
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    for (const absl::string_view neutral_text : neutral.values) {
      if (text == neutral_text) return;
    }
    builder_.RefuseUnsupported(neutral.key, std::string(neutral.why));
  }

  void RefuseType(const char* name, const char* type, const json& value) {
    builder_.Refuse(name, absl::StrCat("must be ", type, ", is ", Excerpt(value)));
  }

  void ReadSendImages(const json& value) {
    const bool is_digit = value == 0 || value == 1;
    if (const std::optional<bool> sends = is_digit ? value == 1 : BooleanOf(value)) {
      form_.send_images = *sends;
    } else {
      RefuseType("send_images", "true or false", value);
    }
  }

  void ReadSeed(const json& value) {
    if (IntegerOf(value) != -1) builder_.Set("seed", value, "seed");
  }

  void ReadImages(const json& value) {
    if (!image_to_image_) {
      form_.warnings.push_back("init_images was not read: it is for img2img");
      return;
    }
    if (!value.is_array() || value.size() != 1) {
      return builder_.Refuse("init_images", "must be a list of one picture");
    }
    builder_.Set("image", value.front(), "init_images");
  }

  void ReadMask(const json& value) {
    if (image_to_image_) return builder_.Set("mask_image", value, "mask");
    form_.warnings.push_back("mask was not read: it is for img2img");
  }

  // As the web UI: all of what it has beside a mask has a value, and what the mask keeps is put
  // back.
  void ReadInpainting() {
    if (!builder_.request().has_mask_image()) return;
    const bool is_its = !At("mask").is_null();
    const json none, four = kMaskBlur, zero = 0;
    SetWhole("mask_blur", "mask_blur", is_its ? four : none);
    if (!is_its) return;
    WarnOfFill();
    if (builder_.request().differential()) return WarnOfCrop();
    const json& whole_size = At("inpaint_full_res");
    if (whole_size.is_null() || whole_size == 1 || BooleanOf(whole_size).value_or(false)) {
      SetWhole("padding_mask_crop", "inpaint_full_res_padding", zero);
    } else if (!builder_.IsSet("preserve_unmasked")) {
      builder_.Set("preserve_unmasked", true, "inpaint_full_res");
    }
  }

  void WarnOfFill() {
    const std::optional<int64_t> fill = IntegerOf(At("inpainting_fill"));
    if (!fill || fill == kOriginalContent) return;
    form_.warnings.push_back(absl::StrCat("inpainting_fill ", *fill, " was read as ",
                                          kOriginalContent, ": drawing begins with the picture"));
  }

  // A differential mask has no crop, and its greys say what is kept.
  void WarnOfCrop() {
    for (const char* key : {"inpaint_full_res", "inpaint_full_res_padding"}) {
      if (At(key).is_null()) continue;
      form_.warnings.push_back(
          absl::StrCat(key, " was not read: a differential mask is for the whole picture"));
    }
  }

  // Sets a field that is not set yet to a whole number of the web UI's, or what it is there where
  // the request has none.
  void SetWhole(const char* field, const char* key, const json& by_default) {
    const json& value = At(key);
    if (!builder_.IsSet(field)) builder_.Set(field, value.is_null() ? by_default : value, key);
  }

  void ReadStrength(const json& value) {
    if (image_to_image_) return builder_.Set("strength", value, "denoising_strength");
    if (!NumberOf(value)) RefuseType("denoising_strength", "a number", value);
  }

  // As the web UI counts: 0 and 1 leave out no layer.
  void ReadClipSkip(const std::string& name, const json& value) {
    const std::optional<int64_t> skip = IntegerOf(value);
    if (skip == 0 || skip == 1) return;
    builder_.Set("clip_skip_a1111", value, name);
  }

  void ReadSettings(const json& value) {
    if (!value.is_object()) return builder_.Refuse("override_settings", "must be an object");
    for (const auto& [key, setting] : value.items()) {
      if (setting.is_null()) continue;
      if (key == "CLIP_stop_at_last_layers") {
        ReadClipSkip("override_settings.CLIP_stop_at_last_layers", setting);
      } else if (key == "sd_model_checkpoint") {
        ReadModel(setting);
      } else if (key == "sd_vae") {
        CheckNeutral({"override_settings.sd_vae",
                      {"\"\"", "\"None\"", "\"Automatic\""},
                      "the VAE is the server's own"},
                     setting);
      } else {
        form_.warnings.push_back(absl::StrCat(
            "override_settings.", absl::string_view(key).substr(0, 64), " was not read"));
      }
    }
  }

  void ReadModel(const json& value) {
    const auto model = FindModel(models_, value.is_string() ? value.get<std::string>() : "?");
    if (!model.ok()) {
      model_status_ = model.status();
      return;
    }
    builder_.Call("model", "override_settings.sd_model_checkpoint");
    builder_.request().set_model(model->component);
  }

  void ReadTask(const json& value) {
    if (!value.is_string()) return RefuseType("force_task_id", "a text", value);
    if (!generation::IsRequestId(value.get_ref<const std::string&>())) return;
    builder_.Set("request_id", value, "force_task_id");
  }

  void ReadRefiner(const json& value) {
    if (!value.is_string()) return RefuseType("refiner_checkpoint", "a text", value);
    const std::string name = value.get<std::string>();
    if (name.empty() || name == "None") return;
    const auto model = FindModel(models_, name);
    if (!model.ok() || model->component != "refiner") {
      return builder_.RefuseUnsupported("refiner_checkpoint", "no refiner of that name is served");
    }
    builder_.Set("refine", true, "refiner_checkpoint");
    builder_.Set("denoising_end", At("refiner_switch_at"), "refiner_switch_at");
  }

  // The sampler and, behind it, the schedule type, as the server reads names of both.
  void ReadSampler() {
    std::string name = TextAt("sampler_name");
    if (name.empty()) name = TextAt("sampler_index");
    const std::string schedule = TextAt("scheduler"), type = Squeezed(schedule);
    static const auto& plain =
        *new std::set<std::string>{"", "automatic", "uniform", "normal", "default"};
    const bool has_type = plain.count(type) == 0;
    if (name.empty() && has_type) name = "Euler";
    if (name.empty()) return;
    const std::string all = has_type ? absl::StrCat(name, " + ", schedule) : name;
    builder_.Set("scheduler", all, has_type ? "scheduler" : "sampler_name");
    // Clients send it whatever the sampler is; the web UI reads it of one alone.
    if (Squeezed(name) == "ddim") builder_.Set("eta", At("eta"), "eta");
  }

  // Empty where there is none; what is no text is a violation.
  std::string TextAt(const char* key) {
    const json& value = At(key);
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_null() && !JudgeUnread(key, value)) RefuseType(key, "a text", value);
    return "";
  }

  void ReadCount() {
    const std::optional<int64_t> batch = CountAt("batch_size"), times = CountAt("n_iter");
    if (!batch || !times || (*batch == 1 && *times == 1)) return;
    builder_.Set("num_images_per_prompt", *batch * *times, *batch == 1 ? "n_iter" : "batch_size");
  }

  std::optional<int64_t> CountAt(const char* key) {
    constexpr int64_t kMost = 1 << 15;
    if (At(key).is_null()) return 1;
    const std::optional<int64_t> count = IntegerOf(At(key));
    if (count && *count >= 1 && *count <= kMost) return count;
    builder_.Refuse(key, absl::StrCat("must be from 1 on, is ", Excerpt(At(key))));
    return std::nullopt;
  }

  void SetDefaults() {
    v1::GenerateRequest& request = builder_.request();
    builder_.SetDefaults();
    const bool has_policy = request.bucket_policy() != v1::BUCKET_POLICY_UNSPECIFIED;
    if (!has_policy) request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
    if (!request.has_prompt_syntax()) request.set_prompt_syntax(v1::PROMPT_SYNTAX_A1111);
    if (request.prompt_syntax() == v1::PROMPT_SYNTAX_A1111) ReadNetworks(request);
    if (!image_to_image_) return;
    if (!request.has_image())
      builder_.Refuse("init_images", "is missing: the picture to start from");
    if (!request.has_strength()) request.set_strength(kDenoisingStrength);
  }

  // The web UI reads them in prompts alone, and not in negative ones.
  void ReadNetworks(v1::GenerateRequest& request) {
    absl::StatusOr<PromptNetworks> networks = TakeNetworks(request.prompt(), loras_);
    if (!networks.ok()) return builder_.Refuse("prompt", std::string(networks.status().message()));
    if (networks->adapters.empty()) return;
    form_.prompt = request.prompt();
    // No request has an empty prompt; a blank is encoded to the same.
    request.set_prompt(networks->prompt.empty() ? " " : std::move(networks->prompt));
    if (!builder_.IsSet("adapters")) builder_.Call("adapters", "prompt");
    for (v1::Adapter& adapter : networks->adapters) {
      for (const char* part : {"name", "weight", "text_encoder_weight"}) {
        builder_.Call(absl::StrCat("adapters[", request.adapters_size(), "].", part), "prompt");
      }
      *request.add_adapters() = std::move(adapter);
    }
  }

  const bool image_to_image_;
  const std::vector<ServedModel>& models_;
  const std::vector<std::string>& loras_;
  RequestBuilder builder_;
  SdapiForm& form_;
  const json* object_ = nullptr;
  absl::Status model_status_;
};

}  // namespace

absl::Status ReadSdapiRequest(const Request& http, bool image_to_image, const Offer& offer,
                              v1::GenerateRequest& request, SdapiForm& form) {
  return SdapiReader(image_to_image, offer, request, form).Read(http);
}

}  // namespace latentd::server::http
