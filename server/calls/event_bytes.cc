#include "server/calls/event_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <string>
#include <utility>

#include "server/calls/serialize.h"
#include "server/generation/conversion/video_conversion.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using generation::OutgoingEvent;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using Owner = std::shared_ptr<const engine::Event>;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// A chunk's place in its event.
struct ChunkFields {
  int chunk;  // in the event
  int data;   // in the chunk, of which they are the last
};
constexpr ChunkFields kPicture = {v1::GenerateEvent::kImageChunkFieldNumber,
                                  v1::ImageChunk::kDataFieldNumber};
constexpr ChunkFields kFrame = {v1::VideoEvent::kFrameChunkFieldNumber,
                                v1::FrameChunk::kDataFieldNumber};
constexpr ChunkFields kVideo = {v1::VideoEvent::kVideoChunkFieldNumber,
                                v1::VideoChunk::kDataFieldNumber};

// All of the event but the chunk's data, which follow: fields may come in any order. `bytes` are
// those of the event without its chunk.
std::string BytesBefore(std::string bytes, const Message& chunk_message, absl::string_view data,
                        ChunkFields fields) {
  using google::protobuf::io::CodedOutputStream;
  const std::string chunk = SerializeToBytes(chunk_message);
  const auto size = static_cast<uint32_t>(data.size());
  const uint32_t data_tag = TagOf(fields.data);
  const size_t of_data = CodedOutputStream::VarintSize32(data_tag) +
                         CodedOutputStream::VarintSize32(size) + data.size();
  google::protobuf::io::StringOutputStream stream(&bytes);
  CodedOutputStream coded(&stream);
  coded.WriteTag(TagOf(fields.chunk));
  coded.WriteVarint32(static_cast<uint32_t>(chunk.size() + of_data));
  coded.WriteString(chunk);
  coded.WriteTag(data_tag);
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

// An event of that type, with a part of `event`'s picture in its chunk.
template <typename Event>
grpc::ByteBuffer WithData(const OutgoingEvent& event, const Message& chunk, ChunkFields fields) {
  Event outer;
  outer.set_request_id(event.message.request_id());
  const std::array<grpc::Slice, 2> slices = {
      grpc::Slice(BytesBefore(SerializeToBytes(outer), chunk, event.data, fields)),
      Borrow(event.data, event.of)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

grpc::ByteBuffer Serialize(const OutgoingEvent& event) {
  if (event.data.empty()) return Serialize(event.message);
  return WithData<v1::GenerateEvent>(event, event.message.image_chunk(), kPicture);
}

grpc::ByteBuffer SerializeVideo(const OutgoingEvent& event) {
  const v1::VideoEvent message = generation::ToVideoEvent(event);
  if (event.data.empty()) return Serialize(message);
  if (message.has_video_chunk()) {
    return WithData<v1::VideoEvent>(event, message.video_chunk(), kVideo);
  }
  return WithData<v1::VideoEvent>(event, message.frame_chunk(), kFrame);
}

}  // namespace latentd::server::calls
