// libFuzzer target: a byte for the API and the kind of body, then any bytes as the body of a
// request for pictures, or for a video: JSON, or a form whose boundary is "b".
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "nlohmann/json.hpp"
#include "server/http/hugging_face/hugging_face_dialect.h"
#include "server/http/openai/openai_dialect.h"
#include "server/http/sdapi/sdapi_dialect.h"
#include "server/http/videos/video_request.h"

namespace {

namespace http = ::latentd::server::http;

constexpr int kApis = 6;

std::unique_ptr<http::Dialect> DialectOf(int api) {
  http::Offer offer = {.models = {{"sd_xl", "base", 20}, {"sd_refiner", "refiner", 30}},
                       .loras = {"film", "styles/ink"}};
  switch (api) {
    case 0:
      return std::make_unique<http::OpenAiDialect>(http::ImagesRoute::kGenerations,
                                                   std::move(offer));
    case 1:
      return std::make_unique<http::OpenAiDialect>(http::ImagesRoute::kEdits, std::move(offer));
    case 2:
      return std::make_unique<http::OpenAiDialect>(http::ImagesRoute::kVariations,
                                                   std::move(offer));
    case 3:
    case 4:
      return std::make_unique<http::SdapiDialect>(api == 4, std::move(offer), "1");
    default:
      return std::make_unique<http::HuggingFaceDialect>(std::move(offer));
  }
}

// A refusal is an object in JSON, and of a status that says that the client is wrong.
void CheckRefusal(const http::Dialect& dialect, const absl::Status& status) {
  http::Answer answer = dialect.Refuse(status);
  if (answer.code < 400 || answer.code >= 500) std::abort();
  std::string body;
  while (!answer.body.empty()) body += answer.body.Take();
  const auto parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) std::abort();
}

absl::Status ReadVideo(const http::Request& request) {
  static const auto& models = *new std::vector<http::ServedModel>{{"svd", "video", 25}};
  latent::v1::GenerateVideoRequest read;
  http::VideoForm form;
  return http::ReadVideoRequest(request, models, read, form);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::unique_ptr<http::Dialect> dialect = DialectOf(data[0] % kApis);
  const bool form = (data[0] & 0x80) != 0;
  const absl::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const http::Request request = {
      .method = "POST",
      .headers = {{"Content-Type", form ? "multipart/form-data; boundary=b" : "application/json"}},
      .body = std::string(body)};
  latent::v1::GenerateRequest read;
  const bool video = (data[0] & 0x40) != 0;
  const absl::Status status = video ? ReadVideo(request) : dialect->Read(request, read);
  if (!status.ok()) {
    CheckRefusal(*dialect, status);
    return 0;
  }
  // Numbers of eight bytes may be written as two characters, and names of LoRAs be made longer.
  constexpr size_t kBesideBody = 1024, kGrowth = 8;
  if (read.ByteSizeLong() > kBesideBody + kGrowth * size) std::abort();
  return 0;
}
