#include "server/calls/event_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <string>
#include <utility>

#include "server/calls/serialize.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using generation::OutgoingEvent;
using google::protobuf::internal::WireFormatLite;
using Owner = std::shared_ptr<const engine::Event>;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// All of the event but the chunk's data, which follow: fields may come in any order, and a chunk's
// data are its last.
std::string BytesBefore(const OutgoingEvent& event) {
  using google::protobuf::io::CodedOutputStream;
  v1::GenerateEvent outer;
  outer.set_request_id(event.message.request_id());
  const std::string chunk = SerializeToBytes(event.message.image_chunk());
  const auto size = static_cast<uint32_t>(event.data.size());
  constexpr uint32_t kData = TagOf(v1::ImageChunk::kDataFieldNumber);
  const size_t of_data = CodedOutputStream::VarintSize32(kData) +
                         CodedOutputStream::VarintSize32(size) + event.data.size();
  std::string bytes = SerializeToBytes(outer);
  google::protobuf::io::StringOutputStream stream(&bytes);
  CodedOutputStream coded(&stream);
  coded.WriteTag(TagOf(v1::GenerateEvent::kImageChunkFieldNumber));
  coded.WriteVarint32(static_cast<uint32_t>(chunk.size() + of_data));
  coded.WriteString(chunk);
  coded.WriteTag(kData);
  coded.WriteVarint32(size);
  coded.Trim();
  return bytes;
}

grpc::Slice Borrow(absl::string_view data, Owner of) {
  auto owner = std::make_unique<Owner>(std::move(of));
  return grpc::Slice(
      const_cast<char*>(data.data()), data.size(), [](void* o) { delete static_cast<Owner*>(o); },
      owner.release());
}

}  // namespace

grpc::ByteBuffer Serialize(const OutgoingEvent& event) {
  if (event.data.empty()) return Serialize(event.message);
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(BytesBefore(event)),
                                             Borrow(event.data, event.of)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace latentd::server::calls
