#include "core/tokenizer/json_field.h"

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::tokenizer {

using ::nlohmann::json;

absl::Status Wrong(const Field& field, absl::string_view needed) {
  return absl::InvalidArgumentError(absl::StrCat(
      field.name, " is ", Excerpt(field.value.dump(-1, ' ', true, json::error_handler_t::replace)),
      "; ", needed, " is needed"));
}

absl::StatusOr<bool> GetBool(const Field& object, const char* key, bool absent) {
  const auto found = object.value.find(key);
  if (found == object.value.end() || found->is_null()) return absent;
  if (!found->is_boolean()) {
    return Wrong({*found, absl::StrCat(object.name, ".", key)}, "true or false");
  }
  return found->get<bool>();
}

}  // namespace latentd::tokenizer
