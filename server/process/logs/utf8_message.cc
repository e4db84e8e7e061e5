#include "server/process/logs/utf8_message.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "core/base/text/utf8.h"

namespace latentd::server::process {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void MakeText(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
  if (!field.is_repeated()) {
    const std::string text = reflection.GetString(message, &field);
    if (!IsUtf8(text)) reflection.SetString(&message, &field, ToUtf8(text));
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string text = reflection.GetRepeatedString(message, &field, i);
    if (!IsUtf8(text)) reflection.SetRepeatedString(&message, &field, i, ToUtf8(text));
  }
}

// A map is a repeated message to reflection.
void MakeMessages(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
  if (!field.is_repeated()) return MakeUtf8(*reflection.MutableMessage(&message, &field));
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    MakeUtf8(*reflection.MutableRepeatedMessage(&message, &field, i));
  }
}

}  // namespace

void MakeUtf8(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING) MakeText(message, reflection, *field);
    if (field->type() == FieldDescriptor::TYPE_MESSAGE) MakeMessages(message, reflection, *field);
  }
}

}  // namespace latentd::server::process
