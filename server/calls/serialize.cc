#include "server/calls/serialize.h"

#include <grpcpp/support/slice.h>

#include <memory>

#include "absl/strings/string_view.h"
#include "server/calls/utf8.h"
#include "server/process/logs/utf8_message.h"

namespace latentd::server::calls {
namespace {

using google::protobuf::Message;

std::unique_ptr<Message> Utf8Copy(const Message& message) {
  std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  process::MakeUtf8(*copy);
  return copy;
}

grpc::Slice ToSlice(const Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return slice;
}

bool IsReadable(const Message& message, const grpc::Slice& bytes) {
  const absl::string_view view(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  return FindInvalidUtf8(*message.GetDescriptor(), view).empty();
}

grpc::Slice ToReadableSlice(const Message& message) {
  grpc::Slice slice = ToSlice(message);
  return IsReadable(message, slice) ? slice : ToSlice(*Utf8Copy(message));
}

}  // namespace

grpc::ByteBuffer Serialize(const Message& message) {
  const grpc::Slice slice = ToReadableSlice(message);
  return grpc::ByteBuffer(&slice, 1);
}

std::string SerializeToBytes(const Message& message) {
  const grpc::Slice slice = ToReadableSlice(message);
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

void AddDetail(google::rpc::Status& status, const Message& detail) {
  status.add_details()->PackFrom(*Utf8Copy(detail));
}

}  // namespace latentd::server::calls
