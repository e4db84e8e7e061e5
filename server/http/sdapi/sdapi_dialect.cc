#include "server/http/sdapi/sdapi_dialect.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "core/image/parameters.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/http_status.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kUnprocessable = 422;

image::PictureParameters ParametersOf(const latent::v1::GenerateRequest& request,
                                      const std::string& prompt, const engine::Image& image,
                                      const std::string& version) {
  image::PictureParameters parameters;
  parameters.prompt = prompt;
  parameters.negative_prompt = request.negative_prompt();
  parameters.steps = request.num_inference_steps();
  parameters.sampler = request.scheduler();
  parameters.cfg_scale = request.guidance_scale();
  parameters.seed = image.seed;
  parameters.width = image.size.width;
  parameters.height = image.size.height;
  if (request.has_strength()) parameters.denoising_strength = request.strength();
  if (request.has_clip_skip_a1111()) parameters.clip_skip = request.clip_skip_a1111();
  parameters.version = absl::StrCat("latentd ", version);
  return parameters;
}

// The same text for each picture.
Json Repeated(const std::string& text, size_t count) {
  Json list = Json::array();
  for (size_t i = 0; i < count; ++i) list.push_back(text);
  return list;
}

}  // namespace

absl::Status SdapiDialect::Read(const Request& http, latent::v1::GenerateRequest& request) {
  return ReadSdapiRequest(http, image_to_image_, offer_, request, form_);
}

std::string SdapiDialect::InfoOf(const Drawn& drawn) const {
  const latent::v1::GenerateRequest& request = drawn.completed.parameters();
  // With the LoRAs that it named, as the web UI has it.
  const std::string& prompt = form_.prompt.empty() ? request.prompt() : form_.prompt;
  Json seeds = Json::array(), texts = Json::array(), warnings = Json::array();
  for (size_t i = 0; i < drawn.images.size(); ++i) {
    seeds.push_back(drawn.image(i).seed);
    texts.push_back(image::ParametersText(ParametersOf(request, prompt, drawn.image(i), version_)));
  }
  for (const std::string& warning : drawn.completed.warnings()) warnings.push_back(warning);
  for (const std::string& warning : form_.warnings) warnings.push_back(warning);
  const std::string model = request.model().empty() && !offer_.models.empty()
                                ? offer_.models.front().id
                                : request.model();
  const size_t count = drawn.images.size();
  Json info = {
      {"prompt", prompt},
      {"all_prompts", Repeated(prompt, count)},
      {"negative_prompt", request.negative_prompt()},
      {"all_negative_prompts", Repeated(request.negative_prompt(), count)},
      {"seed", seeds.empty() ? Json() : seeds.front()},
      {"all_seeds", seeds},
      {"width", count == 0 ? 0 : drawn.image(0).size.width},
      {"height", count == 0 ? 0 : drawn.image(0).size.height},
      {"sampler_name", request.scheduler()},
      {"cfg_scale", request.guidance_scale()},
      {"steps", request.num_inference_steps()},
      {"batch_size", count},
      {"sd_model_name", model},
      {"denoising_strength", request.has_strength() ? Json(request.strength()) : Json()},
      {"clip_skip", request.has_clip_skip_a1111() ? request.clip_skip_a1111() : 1},
      {"infotexts", std::move(texts)},
      {"index_of_first_image", 0},
      {"job_timestamp", absl::FormatTime("%Y%m%d%H%M%S", drawn.created, absl::UTCTimeZone())},
      {"version", absl::StrCat("latentd ", version_)},
      {"request_id", drawn.request_id},
      {"warnings", std::move(warnings)}};
  return ToText(info);
}

Answer SdapiDialect::Show(const Drawn& drawn) const {
  Answer answer;
  answer.body.Add("{\"images\":[");
  for (size_t i = 0; form_.send_images && i < drawn.images.size(); ++i) {
    answer.body.Add(i == 0 ? "\"" : "\",\"");
    answer.body.AddBase64(drawn.image(i).bytes, drawn.images[i]);
  }
  if (form_.send_images && !drawn.images.empty()) answer.body.Add("\"");
  answer.body.Add(absl::StrCat("],\"parameters\":", ToText(Json(form_.parameters)),
                               ",\"info\":", ToText(Json(InfoOf(drawn))), "}"));
  return answer;
}

Answer SdapiDialect::Refuse(const absl::Status& status) const {
  return SdapiRefusal(status, form_.names);
}

Answer SdapiRefusal(const absl::Status& status, const FieldNames& names) {
  const bool bad_fields = !GetFieldViolations(status).empty();
  return {.code = bad_fields ? kUnprocessable : StatusOf(status).code,
          .headers = ErrorHeaders(status),
          .body = AnswerBody(ToText(SdapiError(status, names))),
          .close = ClosesConnection(status)};
}

}  // namespace latentd::server::http
