// Answers that cannot be read. gRPC keeps it to itself that a message could not be parsed: Read of
// a stream then returns false, as at its end, and Finish waits for ever behind the messages that
// nothing takes; a unary call ends as if the server did not serve it. Here such a stream is
// cancelled, and either call ends with INTERNAL and a message that says why. All answers are read
// through this header.
//
// Thread-safe: free functions without state.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

namespace latentd::client {

// A mark that parsing removes, since it begins by clearing the message.
void MarkAsUnread(google::protobuf::Message& message);
bool IsUnread(const google::protobuf::Message& message);

grpc::Status UnreadableAnswer();

// Reads a stream to its end, and returns how the call has ended. `take` gets each message,
// and returns whether to go on: false ends the call with CANCELLED.
template <typename Message, typename Take>
grpc::Status ReadStream(grpc::ClientContext& context, grpc::ClientReader<Message>& reader,
                        const Take& take) {
  while (true) {
    Message message;
    MarkAsUnread(message);
    const bool is_read = reader.Read(&message);
    if (is_read && take(message)) continue;
    const bool is_unreadable = !is_read && !IsUnread(message);
    if (is_read || is_unreadable) context.TryCancel();
    const grpc::Status status = reader.Finish();
    return is_unreadable ? UnreadableAnswer() : status;
  }
}

// Makes a call with one answer: `call`, which returns how it has ended, is to fill `response`.
template <typename Response, typename MakeCall>
grpc::Status ReadAnswer(Response& response, const MakeCall& call) {
  MarkAsUnread(response);
  const grpc::Status status = call();
  if (!IsUnread(response)) {
    const bool is_unreadable = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
    return is_unreadable ? UnreadableAnswer() : status;
  }
  response.Clear();
  return status;
}

}  // namespace latentd::client
