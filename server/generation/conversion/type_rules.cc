#include "server/generation/conversion/type_rules.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::server::generation {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Most unknown fields of one message that are named.
constexpr size_t kMaxUnknownFields = 8;

// Messages are looked at until so many violations are known: a list may have millions of them.
constexpr size_t kMaxViolations = 64;

class TypeRules {
 public:
  explicit TypeRules(std::vector<FieldViolation>& violations) : violations_(violations) {}

  void Check(const Message& message, const std::string& prefix) {
    if (violations_.size() >= kMaxViolations) return;
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = absl::StrCat(prefix, field->name());
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) CheckFinite(message, *field, name);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        CheckKnown(*field->enum_type(), reflection.GetEnumValue(message, field), name);
      }
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) CheckInner(message, *field, name);
    }
    CheckUnknownFields(*message.GetDescriptor(), reflection.GetUnknownFields(message), prefix);
  }

 private:
  void CheckInner(const Message& message, const FieldDescriptor& field, const std::string& name) {
    const Reflection& reflection = *message.GetReflection();
    if (!field.is_repeated()) {
      return Check(reflection.GetMessage(message, &field), absl::StrCat(name, "."));
    }
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      Check(reflection.GetRepeatedMessage(message, &field, i), absl::StrCat(name, "[", i, "]."));
    }
  }

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

  // A parameter of a newer API would change what is done: leaving it out would do something else.
  void CheckUnknownFields(const Descriptor& type, const google::protobuf::UnknownFieldSet& fields,
                          const std::string& prefix) {
    std::set<int> numbers;
    for (int i = 0; i < fields.field_count() && numbers.size() < kMaxUnknownFields; ++i) {
      if (numbers.insert(fields.field(i).number()).second) {
        AddUnknownField(type, fields.field(i).number(), prefix);
      }
    }
  }

  // Protobuf takes a field of another type than the one it knows for one that it does not know.
  void AddUnknownField(const Descriptor& type, int number, const std::string& prefix) {
    const FieldDescriptor* field = type.FindFieldByNumber(number);
    if (field != nullptr) {
      violations_.push_back({absl::StrCat(prefix, field->name()),
                             "has another type in this server's API; the client may use another "
                             "version of it"});
      return;
    }
    violations_.push_back({absl::StrCat(prefix, number),
                           "this server knows no field of that number; it may be older than the "
                           "client"});
  }

  std::vector<FieldViolation>& violations_;
};

}  // namespace

void CheckTypes(const Message& message, std::vector<FieldViolation>& violations) {
  TypeRules(violations).Check(message, "");
}

}  // namespace latentd::server::generation
