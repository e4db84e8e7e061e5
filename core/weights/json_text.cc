#include "core/weights/json_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;

// Keeps nothing of the text but the first reason to refuse it.
class ObjectChecker : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(number_integer_t) override { return Scalar(); }
  bool number_unsigned(number_unsigned_t) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool string(string_t&) override { return Scalar(); }
  bool binary(binary_t&) override { return Scalar(); }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return depth_ == 0 ? NotAnObject() : Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse(absl::StrCat("is not JSON: it goes wrong at byte ", position));
  }

 private:
  bool Scalar() { return depth_ == 0 ? NotAnObject() : true; }
  bool NotAnObject() { return Refuse("is JSON, but not an object {...}"); }
  bool Enter() {
    if (++depth_ <= kMaxJsonDepth) return true;
    return Refuse(absl::StrCat("is nested more than ", kMaxJsonDepth, " deep"));
  }
  bool Leave() {
    --depth_;
    return true;
  }
  bool Refuse(std::string error) {
    error_ = std::move(error);
    return false;
  }

  int depth_ = 0;
  std::string error_;
};

}  // namespace

absl::Status CheckJsonObject(absl::string_view text, const std::string& file) {
  ObjectChecker checker;
  if (Json::sax_parse(text.begin(), text.end(), &checker)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, " ", checker.error()));
}

absl::StatusOr<std::string> ReadJsonObject(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, max_bytes));
  RETURN_IF_ERROR(CheckJsonObject(text, path));
  return text;
}

}  // namespace latentd::weights
