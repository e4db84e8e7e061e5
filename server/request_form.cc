#include "server/request_form.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/request_conversion.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Rules that follow from a field's type alone, for a message and those in it.
class TypeRules {
 public:
  explicit TypeRules(std::vector<FieldViolation>& violations) : violations_(violations) {}

  void Check(const Message& message, const std::string& prefix) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = absl::StrCat(prefix, field->name());
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) CheckFinite(message, *field, name);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        CheckKnown(*field->enum_type(), reflection.GetEnumValue(message, field), name);
      }
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Check(reflection.GetMessage(message, field), absl::StrCat(name, "."));
      }
    }
    CheckUnknownFields(reflection.GetUnknownFields(message), prefix);
  }

 private:
  void CheckFinite(const Message& message, const FieldDescriptor& field, const std::string& name) {
    const Reflection& reflection = *message.GetReflection();
    const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
    for (int i = 0; i < count; ++i) {
      const double value = field.is_repeated() ? reflection.GetRepeatedDouble(message, &field, i)
                                               : reflection.GetDouble(message, &field);
      if (!std::isfinite(value)) {
        violations_.push_back({name, absl::StrCat("must be a finite number, not ", value)});
        return;
      }
    }
  }

  void CheckKnown(const EnumDescriptor& type, int value, const std::string& name) {
    if (type.FindValueByNumber(value) != nullptr) return;
    std::vector<std::string> known;
    known.reserve(type.value_count());
    for (int i = 0; i < type.value_count(); ++i) known.push_back(type.value(i)->name());
    violations_.push_back(
        {name, absl::StrCat("has no value ", value, "; there are ", absl::StrJoin(known, ", "))});
  }

  // A parameter of a newer API would change the picture: leaving it out would draw another one.
  void CheckUnknownFields(const google::protobuf::UnknownFieldSet& fields,
                          const std::string& prefix) {
    if (fields.empty()) return;
    violations_.push_back({absl::StrCat(prefix, fields.field(0).number()),
                           "this server knows no field of that number; it may be older than the "
                           "client"});
  }

  std::vector<FieldViolation>& violations_;
};

void CheckRequestId(const std::string& id, std::vector<FieldViolation>& violations) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == ':' || c == '-';
  };
  if (id.size() > kMaxRequestIdBytes || !std::all_of(id.begin(), id.end(), allowed)) {
    violations.push_back({"request_id", absl::StrCat("must be at most ", kMaxRequestIdBytes,
                                                     " letters, digits and ._:- characters")});
  }
}

void CheckLength(absl::string_view field, const std::string& text,
                 std::vector<FieldViolation>& violations) {
  if (text.size() <= kMaxPromptBytes) return;
  violations.push_back({std::string(field), absl::StrCat("has ", text.size(), " bytes; at most ",
                                                         kMaxPromptBytes, " are allowed")});
}

void CheckPrompts(const v1::GenerateRequest& request, std::vector<FieldViolation>& violations) {
  if (request.prompt().empty()) {
    violations.push_back({"prompt", "must not be empty: say what to draw"});
  }
  CheckLength("prompt", request.prompt(), violations);
  CheckLength("prompt_2", request.prompt_2(), violations);
  CheckLength("negative_prompt", request.negative_prompt(), violations);
  CheckLength("negative_prompt_2", request.negative_prompt_2(), violations);
}

void CheckSeeds(const v1::GenerateRequest& request, std::vector<FieldViolation>& violations) {
  if (request.has_seed() && request.seeds_size() > 0) {
    violations.push_back({"seeds", "cannot be combined with seed"});
  }
}

void CheckOutput(const v1::Output& output, std::vector<FieldViolation>& violations) {
  const v1::Format format = output.format();
  const bool png = format == v1::FORMAT_PNG || format == v1::FORMAT_UNSPECIFIED;
  if (output.has_quality()) {
    if (format != v1::FORMAT_JPEG && format != v1::FORMAT_WEBP) {
      violations.push_back({"output.quality", "applies to FORMAT_JPEG and FORMAT_WEBP only"});
    } else if (output.quality() < 1 || output.quality() > 100) {
      violations.push_back(
          {"output.quality", absl::StrCat("must be 1 to 100, not ", output.quality())});
    }
  }
  if (output.embed_parameters() && !png) {
    violations.push_back({"output.embed_parameters", "applies to FORMAT_PNG only"});
  }
}

}  // namespace

std::vector<FieldViolation> CheckForm(const v1::GenerateRequest& request) {
  std::vector<FieldViolation> violations;
  CheckRequestId(request.request_id(), violations);
  CheckPrompts(request, violations);
  TypeRules(violations).Check(request, "");
  CheckSeeds(request, violations);
  if (request.has_image() && request.image().empty()) {
    violations.push_back({"image", "is empty: it must be a PNG, JPEG or WebP"});
  }
  CheckOutput(request.output(), violations);
  return violations;
}

}  // namespace latentd::server
