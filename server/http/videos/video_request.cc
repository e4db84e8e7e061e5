#include "server/http/videos/video_request.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/pipeline/spec/request/limits.h"
#include "server/http/exchange/http_status.h"
#include "server/http/openai/openai_values.h"
#include "server/http/request/field_builder.h"
#include "server/http/request/field_values.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;

constexpr int kDefaultFps = 7;
constexpr double kMostSeconds = 3600;  // far beyond the frames that a video may have

// Fields that change no video, and are not looked at.
bool HasNoEffect(absl::string_view name) {
  return name == "user" || name == "metadata" || name == "safety_identifier";
}

bool IsImage(absl::string_view name) {
  return name == "input_reference" || name == "input_reference[image_url]" || name == "image" ||
         name == "image[]";
}

class VideoReader {
 public:
  VideoReader(const std::vector<ServedModel>& models, v1::GenerateVideoRequest& request,
              VideoForm& form)
      : models_(models), request_(request), builder_(request), form_(form) {}

  absl::Status Read(const Request& http) {
    RETURN_IF_ERROR(ReadFields(
        http,
        {.file = [&](const auto& name, std::string bytes) { ReadFile(name, std::move(bytes)); },
         .model = [&](const auto& name) { return ReadModel(name); },
         .key = [&](const auto& name, const json& value) { ReadKey(name, value); }}));
    if (seconds_) SetFrames();
    SetOutput();
    CheckIsOne();
    Describe();
    form_.names = builder_.names();
    return builder_.status();
  }

 private:
  void ReadFile(const std::string& name, std::string bytes) {
    if (IsImage(name)) return builder_.SetImage(std::move(bytes), name);
    if (name != "latents") return builder_.RefuseUnknown(name);
    builder_.Call("latents", name);
    request_.set_latents(std::move(bytes));
  }

  absl::Status ReadModel(const std::string& name) {
    if (models_.empty()) return absl::OkStatus();  // the engine says so
    ASSIGN_OR_RETURN(model_, FindModel(models_, name));
    builder_.Call("model", "model");
    request_.set_model(model_.component);
    return absl::OkStatus();
  }

  void ReadKey(const std::string& name, const json& value) {
    if (HasNoEffect(name)) return;
    if (IsImage(name)) {
      return ReadPictures(name, value, builder_,
                          [&](std::string bytes) { builder_.SetImage(std::move(bytes), name); });
    }
    if (name == "prompt") return ReadPrompt(value);
    if (name == "size") return ReadSize(value, builder_);
    if (name == "seconds") return ReadSeconds(value);
    if (name == "output_format") return ReadFormat(value);
    if (name == "n") return builder_.Set("num_videos_per_prompt", value, name);
    if (name == "steps") return builder_.Set("num_inference_steps", value, name);
    if (name == "seed" && IntegerOf(value) == -1) return;  // any
    if (builder_.IsField(name)) return builder_.Set(name, value, name);
    builder_.RefuseUnknown(name);
  }

  void ReadPrompt(const json& value) {
    if (!value.is_string()) return builder_.Refuse("prompt", "must be a text");
    const auto& prompt = value.get_ref<const std::string&>();
    if (prompt.size() > pipeline::kMaxPromptBytes) {
      return builder_.Refuse("prompt", absl::StrCat("must be at most ", pipeline::kMaxPromptBytes,
                                                    " bytes, is ", prompt.size()));
    }
    form_.prompt = prompt;
  }

  void ReadSeconds(const json& value) {
    seconds_ = NumberOf(value);
    if (seconds_ && *seconds_ > 0 && *seconds_ <= kMostSeconds) return;
    seconds_.reset();
    builder_.Refuse("seconds", absl::StrCat("must be a number above 0 and at most ", kMostSeconds,
                                            ", is ", Excerpt(value)));
  }

  int fps() const { return request_.has_fps() ? std::max(request_.fps(), 1) : kDefaultFps; }

  void SetFrames() {
    const auto frames = static_cast<int>(std::lround(*seconds_ * std::min(fps(), 1000)));
    builder_.Set("num_frames", std::max(frames, 1), "seconds");
  }

  // The short name of a file's format.
  void ReadFormat(const json& value) {
    v1::VideoFormat format = v1::VIDEO_FORMAT_UNSPECIFIED;
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const bool known =
        v1::VideoFormat_Parse(absl::StrCat("VIDEO_FORMAT_", absl::AsciiStrToUpper(text)), &format);
    if (!known || format == v1::VIDEO_FORMAT_UNSPECIFIED) {
      return builder_.Refuse(
          "output_format",
          absl::StrCat("must be webp, apng, avi, y4m, raw or webm, is ", Excerpt(value)));
    }
    builder_.Call("output.file", "output_format");
    format_ = format;
  }

  void SetOutput() {
    v1::VideoOutput& output = *request_.mutable_output();
    const bool says_both = format_ && output.file() != v1::VIDEO_FORMAT_UNSPECIFIED;
    if (says_both && output.file() != *format_) {
      builder_.Refuse("output_format", "is given as output.file too");
    }
    if (format_) output.set_file(*format_);
    if (output.file() == v1::VIDEO_FORMAT_UNSPECIFIED) output.set_file(v1::VIDEO_FORMAT_WEBP);
  }

  void CheckIsOne() {
    if (request_.num_videos_per_prompt() <= 1 && request_.seeds_size() <= 1) return;
    const char* field = request_.seeds_size() > 1 ? "seeds" : "num_videos_per_prompt";
    const auto name = builder_.names().find(field);
    builder_.RefuseUnsupported(name == builder_.names().end() ? field : name->second,
                               "must be one: a job is one video");
  }

  // By the request, else by the model's defaults.
  void Describe() {
    const int width = request_.has_width() ? request_.width() : model_.default_size.width;
    const int height = request_.has_height() ? request_.height() : model_.default_size.height;
    const int frames =
        request_.has_num_frames() ? request_.num_frames() : model_.default_size.frames;
    form_.model = model_.id;
    form_.size = SizeText(width, height);
    form_.seconds = absl::StrFormat("%.3g", static_cast<double>(frames) / fps());
  }

  const std::vector<ServedModel>& models_;
  v1::GenerateVideoRequest& request_;
  FieldBuilder builder_;
  VideoForm& form_;
  ServedModel model_;
  std::optional<double> seconds_;
  std::optional<v1::VideoFormat> format_;
};

}  // namespace

absl::Status ReadVideoRequest(const Request& http, const std::vector<ServedModel>& models,
                              v1::GenerateVideoRequest& request, VideoForm& form) {
  return VideoReader(models, request, form).Read(http);
}

}  // namespace latentd::server::http
