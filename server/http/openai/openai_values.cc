#include "server/http/openai/openai_values.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "server/http/request/field_values.h"
#include "server/http/request/picture_text.h"
#include "server/http/request/request_values.h"

namespace latentd::server::http {
namespace {

using nlohmann::json;

struct Sides {
  int32_t width, height;
};

std::optional<Sides> ParseSize(const std::string& text) {
  const std::vector<std::string> sides =
      absl::StrSplit(absl::StrReplaceAll(text, {{"×", "x"}, {"*", "x"}, {"X", "x"}}), 'x');
  Sides size = {};
  const bool is_size = sides.size() == 2 && sides[0].size() <= 5 && sides[1].size() <= 5 &&
                       absl::SimpleAtoi(sides[0], &size.width) &&
                       absl::SimpleAtoi(sides[1], &size.height) && size.width > 0 &&
                       size.height > 0;
  return is_size ? std::optional(size) : std::nullopt;
}

// Null: there is none.
const json* PictureText(const json& value) {
  if (value.is_string()) return &value;
  if (!value.is_object()) return nullptr;
  const auto url = value.find("image_url");
  if (url != value.end()) return PictureText(*url);
  const auto inner = value.find("url");
  return inner == value.end() ? nullptr : PictureText(*inner);
}

absl::Status MergeExtra(json& object) {
  if (!object.contains("extra_body")) return absl::OkStatus();
  const json extra = std::move(object["extra_body"]);
  object.erase("extra_body");
  if (extra.is_null()) return absl::OkStatus();
  if (!extra.is_object()) return InvalidFields({{"extra_body", "must be an object"}});
  for (const auto& [name, value] : extra.items()) {
    if (!object.contains(name)) object[name] = value;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadFields(const Request& http, const FieldReaders& read) {
  ASSIGN_OR_RETURN(RequestValues values, ReadValues(http));
  json& object = values.object;
  RETURN_IF_ERROR(MergeExtra(object));
  for (auto& [name, bytes] : values.files) read.file(name, std::move(bytes));
  const json model = std::move(object["model"]);
  object.erase("model");
  if (!model.is_null() && !model.is_string()) return InvalidFields({{"model", "must be a text"}});
  RETURN_IF_ERROR(read.model(model.is_null() ? "" : model.get_ref<const std::string&>()));
  for (const auto& [name, value] : object.items()) {
    if (!value.is_null()) read.key(name, value);
  }
  return absl::OkStatus();
}

void ReadSize(const json& value, FieldBuilder& builder) {
  const std::string text = value.is_string() ? value.get<std::string>() : Excerpt(value);
  if (text.empty() || text == "auto") return;
  const std::optional<Sides> size = ParseSize(text);
  if (!size) {
    return builder.Refuse("size",
                          absl::StrCat("must be auto or WIDTHxHEIGHT, is ", Excerpt(value)));
  }
  builder.Set("width", size->width, "size");
  builder.Set("height", size->height, "size");
}

void ReadPictures(absl::string_view name, const json& value, FieldBuilder& builder,
                  absl::FunctionRef<void(std::string bytes)> take) {
  if (value.is_array()) {
    for (const json& each : value) ReadPictures(name, each, builder, take);
    return;
  }
  const json* text = PictureText(value);
  if (text == nullptr) return builder.Refuse(name, "must be a text: base64, or a data: URL");
  auto bytes = PictureOf(text->get_ref<const std::string&>());
  if (!bytes.ok()) return builder.Refuse(name, std::string(bytes.status().message()));
  take(*std::move(bytes));
}

}  // namespace latentd::server::http
