// One request for pictures, from its bytes to its log line, whatever transport it came by: the
// engine's sink on one side, on the other what a derived class sends to its client (StreamCall and
// UnaryCall in server/calls by gRPC).
//
// Life: the call is made; Submit hands the request to the engine; events fill the outbox and
// Advance sends what can be sent; when the outbox has ended the transport finishes; when it is done
// with the call, Done ends the life. A client that goes away closes the outbox at once, and the
// call ends when the engine says so. The engine shares the call until then.
//
// With a resumable request the engine's sink is a KeptStream that the call reads from: when the
// client goes away the call ends at once, and the work goes on for a call of ResumeStream.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/active_calls.h"
#include "server/generation/call_record.h"
#include "server/generation/client.h"
#include "server/generation/conversion/field_limits.h"
#include "server/generation/conversion/request_conversion.h"
#include "server/generation/held_request.h"
#include "server/generation/kept_stream.h"
#include "server/generation/outbox.h"
#include "server/generation/received_request.h"
#include "server/tracing/call_trace.h"

namespace latentd::server::generation {

inline constexpr char kResumeMethod[] = "ResumeStream";
inline constexpr char kResumeVideoMethod[] = "ResumeVideo";

// A request to go on with a stream.
struct Resumption {
  std::string request_id;
  int64_t pictures = 0;  // pictures that the client has, whole
  // Bytes of the next picture; of videos of the whole stream, whose `pictures` is not read.
  int64_t bytes = 0;
};

class Generation : public engine::EventSink, public ActiveCall {
 public:
  // From the engine.
  void OnEvent(engine::Event event) final;

  // The same of an event that others may read too, which came then; null: there was no memory for
  // it.
  void OnShared(SharedEvent event, absl::Time came);

  void CancelIfUnread(absl::Time now, absl::Duration limit) final;
  int64_t held_bytes() const final;
  HeldRequest::Bytes request_bytes() const final { return request_.bytes(); }

 protected:
  // `method` is for the log, metrics and spans.
  Generation(CallEnvironment environment, Client client, absl::string_view method,
             Results results = Results::kPictures);

  // As Enter. RESOURCE_EXHAUSTED: there is no memory for that; the log line is written, and the
  // call does not own itself.
  absl::Status TryEnter();

  // Reads, checks and queues the request, which is dropped: a picture in it may be large. After an
  // error, RESOURCE_EXHAUSTED if there is no memory for any of it, no event comes: the transport
  // finishes with it.
  absl::Status Submit(ReceivedRequest& request);
  // The same of a request to resume, which `read` reads as far as it can: sends what is kept of a
  // request, and what comes of it. NOT_FOUND: its caller has none of that name.
  using ReadResume = absl::Status(Resumption& asked);
  absl::Status Resume(absl::FunctionRef<ReadResume> read);

  // The client has gone away, or takes nothing any more.
  void ClientGone();
  // The transport is done with the call, which ended with `status`, and may be gone on return.
  void Done(const absl::Status& status);

  // The id that the request goes by, once it has been read.
  std::string request_id() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The status that its client was told over HTTP, for the log line.
  void NoteHttpStatus(int code) ABSL_LOCKS_EXCLUDED(mutex_);

  // A border: makes the change, then sends what can be sent, or ends the call if there is no memory
  // for it. Called without the lock.
  void AdvanceAfter(absl::FunctionRef<void()> change);

  // There was no memory for what the client has to be told: the call ends with `status`, and the
  // engine stops. Called without the lock.
  void Fail(const absl::Status& status);

  // Sends what can be sent now. What is left may be wrong after an exception, unless the outbox
  // holds nothing but the end: then there is none. Called without the lock.
  virtual void Advance() = 0;

  // Next message to send, if there is one.
  std::optional<OutgoingEvent> NextEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A picture came, that counts as unread as long as `token` is kept; the outbox keeps it until the
  // last part is taken.
  virtual void KeepUnread(const std::shared_ptr<const void>&)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}

  // True if its client may come back for the rest.
  virtual bool CanBeResumed() const = 0;

  // Bytes of pictures that the answer can hold, 0: any number. `echo_bytes` is what it repeats
  // of the request.
  virtual int64_t MaxPictureBytes(int64_t echo_bytes) const = 0;

  virtual bool TakesPreviews() const = 0;

  mutable absl::Mutex mutex_;
  std::optional<Outbox> outbox_ ABSL_GUARDED_BY(mutex_);  // once the request has been read

 private:
  absl::Status TrySubmit(ReceivedRequest& request);
  absl::StatusOr<uint64_t> SubmitSpec(engine::GenerateSpec spec);
  absl::StatusOr<engine::GenerateSpec> Read(ReceivedRequest& received);
  absl::Status OpenKept(const engine::GenerateSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TryResume(absl::FunctionRef<ReadResume> read);
  std::shared_ptr<KeptStream> kept() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const KeptStream::Reader> MakeReader();
  // Ends the call's interest in the job, which is cancelled unless the request can be resumed.
  void LeaveWork() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time MonotonicDeadline() const;
  void NoteId(const std::string& request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(SharedEvent event, absl::Time came) ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const engine::Event& event, absl::Time came) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without memory there is no line, but an end.
  void TryAccount(const absl::Status& status);
  void Account(const absl::Status& status);
  // Status code that the client sees at the end.
  absl::StatusCode EndCode(const absl::Status& status) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void SendSpans(const absl::Status& status, absl::StatusCode code, absl::Time now) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const absl::Time deadline_;  // by the clock on the wall
  const std::string caller_;
  const Results results_;
  HeldRequest request_;  // while Submit runs
  CallRecord record_ ABSL_GUARDED_BY(mutex_);
  // Nothing: its spans are not recorded.
  std::optional<tracing::CallTrace> trace_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> handle_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<KeptStream> kept_ ABSL_GUARDED_BY(mutex_);  // null: not resumable
  bool client_gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool deadline_passed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace latentd::server::generation
