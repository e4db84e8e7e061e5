// An event as the bytes that gRPC sends to a client.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "server/generation/conversion/outgoing_event.h"

namespace latentd::server::calls {

// The bytes keep the picture, of which `event` has a part, alive until gRPC has sent them.
grpc::ByteBuffer Serialize(const generation::OutgoingEvent& event);
// The same as the event of a video.
grpc::ByteBuffer SerializeVideo(const generation::OutgoingEvent& event);

}  // namespace latentd::server::calls
