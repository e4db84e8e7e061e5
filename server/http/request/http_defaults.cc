#include "server/http/request/http_defaults.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "server/generation/conversion/default_fields.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;

constexpr char kDefaultsFlag[] = "--http-defaults: ";

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("at ", column + 1, ": ", message);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::StatusOr<v1::GenerateRequest> ParseDefaults(absl::string_view text) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  v1::GenerateRequest defaults;
  if (!parser.ParseFromString(std::string(text), &defaults)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kDefaultsFlag, "must be fields of a request, such as num_inference_steps: 4; ",
                     error.text()));
  }
  const std::vector<FieldViolation> violations = generation::CheckDefaults(defaults);
  if (violations.empty()) return defaults;
  return absl::InvalidArgumentError(
      absl::StrCat(kDefaultsFlag, InvalidFields(violations).message()));
}

}  // namespace latentd::server::http
