#include "server/http/hugging_face/hugging_face_dialect.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/image/format.h"
#include "server/http/exchange/http_status.h"
#include "server/http/request/field_values.h"
#include "server/http/request/request_builder.h"
#include "server/http/request/request_values.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using nlohmann::json;

void ReadTargetSize(const json& value, RequestBuilder& builder) {
  if (!value.is_object()) return builder.Refuse("target_size", "must be an object");
  for (const char* side : {"width", "height"}) {
    if (value.contains(side)) builder.Set(side, value[side], "target_size");
  }
}

// Empty where there are none; what is no object is a violation.
json ParametersOf(const json& object, RequestBuilder& builder) {
  const auto found = object.find("parameters");
  if (found == object.end() || found->is_null()) return json::object();
  if (found->is_object()) return *found;
  builder.Refuse("parameters", "must be an object");
  return json::object();
}

// "options" say how to wait for a model elsewhere.
void RefuseOthers(const json& object, RequestBuilder& builder) {
  for (const auto& [name, value] : object.items()) {
    const bool known = name == "inputs" || name == "parameters" || name == "options";
    if (!known && !value.is_null()) builder.RefuseUnknown(name);
  }
}

// A part of Accept: "image/webp;q=0.5".
struct Accepted {
  absl::string_view type;
  double weight = 1;
};

std::vector<Accepted> AcceptedIn(absl::string_view accept) {
  std::vector<Accepted> all;
  for (const absl::string_view part : absl::StrSplit(accept, ',')) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ';');
    Accepted accepted = {absl::StripAsciiWhitespace(words.front())};
    for (absl::string_view word : words) {
      word = absl::StripAsciiWhitespace(word);
      if (!absl::ConsumePrefix(&word, "q=")) continue;
      if (!absl::SimpleAtod(word, &accepted.weight)) accepted.weight = 1;
    }
    all.push_back(accepted);
  }
  return all;
}

// The format of most weight, of several the first that is named. Any image is a PNG.
v1::Format FormatOf(absl::string_view accept) {
  using Formats = std::vector<std::pair<absl::string_view, v1::Format>>;
  const std::vector<Accepted> all = AcceptedIn(accept);
  v1::Format best = v1::FORMAT_PNG;
  double most = 0;
  const auto choose_of = [&](const Formats& formats) {
    for (const Accepted& accepted : all) {
      for (const auto& [type, format] : formats) {
        if (!absl::EqualsIgnoreCase(accepted.type, type) || accepted.weight <= most) continue;
        best = format;
        most = accepted.weight;
      }
    }
  };
  choose_of({{"image/png", v1::FORMAT_PNG},
             {"image/jpeg", v1::FORMAT_JPEG},
             {"image/webp", v1::FORMAT_WEBP}});
  choose_of({{"image/*", v1::FORMAT_PNG}, {"*/*", v1::FORMAT_PNG}});
  return best;
}

// Fields that were not set. The picture's format is asked for by the header Accept.
void SetOthers(v1::Format format, RequestBuilder& builder) {
  v1::GenerateRequest& request = builder.request();
  builder.SetDefaults();
  const bool has_policy = request.bucket_policy() != v1::BUCKET_POLICY_UNSPECIFIED;
  if (!has_policy) request.set_bucket_policy(v1::BUCKET_POLICY_SNAP);
  if (builder.IsSet("output")) return;
  request.clear_output();
  request.mutable_output()->set_format(format);
}

}  // namespace

absl::Status HuggingFaceDialect::Read(const Request& http, v1::GenerateRequest& request) {
  ASSIGN_OR_RETURN(const RequestValues values, ReadValues(http));
  RequestBuilder builder(offer_.defaults, request);
  const json parameters = ParametersOf(values.object, builder);
  const json inputs = values.object.value("inputs", json());
  const bool from_image = parameters.contains("prompt") && !parameters["prompt"].is_null();
  RefuseOthers(values.object, builder);
  builder.Set(from_image ? "image" : "prompt", inputs, "inputs");
  for (const auto& [name, value] : parameters.items()) {
    if (value.is_null()) continue;
    if (name == "target_size") {
      ReadTargetSize(value, builder);
    } else if (builder.IsField(name)) {
      builder.Set(name, value, name);
    } else {
      builder.RefuseUnknown(name);
    }
  }
  if (request.num_images_per_prompt() > 1 || request.seeds_size() > 1) {
    builder.Refuse("num_images_per_prompt", "must be 1: the answer is one picture");
  }
  SetOthers(FormatOf(http.Find("accept")), builder);
  names_ = builder.names();
  ASSIGN_OR_RETURN(const ServedModel model, FindModel(offer_.models, request.model()));
  if (!request.model().empty()) request.set_model(model.component);
  return builder.status();
}

Answer HuggingFaceDialect::Show(const Drawn& drawn) const {
  const engine::Image& image = drawn.image(0);
  const absl::string_view mime_type = image::MimeType(image.format);
  Answer answer = {.content_type = std::string(mime_type),
                   .headers = {{"x-seed", absl::StrCat(image.seed)}}};
  answer.body.AddBytes(image.bytes, drawn.images.front());
  return answer;
}

Answer HuggingFaceDialect::Refuse(const absl::Status& status) const {
  return HuggingFaceRefusal(status, names_);
}

Answer HuggingFaceRefusal(const absl::Status& status, const FieldNames& names) {
  return {.code = StatusOf(status).code,
          .headers = ErrorHeaders(status),
          .body = AnswerBody(ToText(HuggingFaceError(status, names))),
          .close = ClosesConnection(status)};
}

}  // namespace latentd::server::http
