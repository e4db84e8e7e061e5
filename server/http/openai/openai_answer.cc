#include "server/http/openai/openai_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/text/text.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/proto_json.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;

void AddPicture(const Drawn& drawn, size_t i, const ImagesForm& form, AnswerBody& body) {
  const engine::Image& image = drawn.image(i);
  const absl::string_view mime_type = image::MimeType(image.format);
  body.Add(absl::StrCat(
      i == 0 ? "" : ",", "{\"seed\":", image.seed, ",",
      form.as_url ? absl::StrCat("\"url\":\"data:", mime_type, ";base64,") : "\"b64_json\":\""));
  body.AddBase64(image.bytes, drawn.images[i]);
  body.Add("\"}");
}

}  // namespace

Json Usage() {
  return {{"input_tokens", 0},
          {"output_tokens", 0},
          {"total_tokens", 0},
          {"input_tokens_details", {{"text_tokens", 0}, {"image_tokens", 0}}}};
}

Json Details(const std::string& request_id, const latent::v1::Completed& completed) {
  Json details = {{"request_id", request_id}};
  Json all = ToJson(completed);
  for (auto& [name, value] : all.items()) details[name] = std::move(value);
  const latent::v1::Size& size = completed.executed_size();
  details["executed_size"] = SizeText(size.width(), size.height());
  return details;
}

void AddOpen(const Json& json, AnswerBody& body) {
  std::string text = ToText(json);
  text.pop_back();
  body.Add(std::move(text));
}

AnswerBody ImagesAnswer(const Drawn& drawn, const ImagesForm& form) {
  Json head = {{"created", absl::ToUnixSeconds(drawn.created)},
               {"background", "opaque"},
               {"output_format", form.format},
               {"quality", form.quality}};
  if (!drawn.images.empty()) {
    const auto& size = drawn.image(0).size;
    head["size"] = SizeText(size.width, size.height);
  }
  head["usage"] = Usage();
  head["latentd"] = Details(drawn.request_id, drawn.completed);
  AnswerBody body;
  AddOpen(head, body);
  body.Add(",\"data\":[");
  for (size_t i = 0; i < drawn.images.size(); ++i) AddPicture(drawn, i, form, body);
  body.Add("]}");
  return body;
}

Json ModelEntry(const ServedModel& model) {
  return {{"id", model.id}, {"object", "model"}, {"created", 0}, {"owned_by", "latentd"}};
}

Json ModelList(const std::vector<ServedModel>& models) {
  Json data = Json::array();
  for (const ServedModel& model : models) data.push_back(ModelEntry(model));
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace latentd::server::http
