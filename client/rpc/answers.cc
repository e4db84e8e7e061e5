#include "client/rpc/answers.h"

#include <google/protobuf/unknown_field_set.h>

namespace latentd::client {
namespace {

using google::protobuf::Message;
using google::protobuf::UnknownFieldSet;

constexpr int kMark = 536'870'911;  // the greatest number that a field can have

}  // namespace

void MarkAsUnread(Message& message) {
  message.Clear();
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(kMark, 1);
}

bool IsUnread(const Message& message) {
  const UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  return unknown.field_count() == 1 && unknown.field(0).number() == kMark;
}

grpc::Status UnreadableAnswer() {
  return {grpc::StatusCode::INTERNAL,
          "what the server answered cannot be read: it is no message of this interface, or not all "
          "of its text is UTF-8"};
}

}  // namespace latentd::client
