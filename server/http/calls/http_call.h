// A request for pictures that came over HTTP: Generation's transport, which collects an answer or
// tells events, as the request's dialect has them. A connection takes what it sends piece by piece.
//
// Life: Start reads and submits the request; whenever there may be something new, `wake` is called;
// the connection takes pieces until the last, and calls End. A client that goes away is told of by
// Left, after which pieces have to be taken all the same, until the last.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/generation/generation.h"
#include "server/http/calls/dialect.h"
#include "server/http/calls/drawn.h"
#include "server/http/exchange/answer_body.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

// Thread-safe.
class HttpCall final : public generation::Generation {
 public:
  // Both may be called from any thread, under locks, until End, and come back to no call.
  struct Transport {
    std::function<void()> wake;   // there may be a piece
    std::function<void()> abort;  // the client is to be left
  };

  HttpCall(generation::CallEnvironment environment, generation::Client client,
           std::unique_ptr<Dialect> dialect, Transport transport);

  using Generation::request_id;

  // As Generation's. Called first.
  absl::Status Enter() { return TryEnter(); }

  // Reads, checks and submits the request; blocks where it is large. `let_go` is called once its
  // bytes are no longer held. Called once.
  void Start(Request http, std::function<void()> let_go);

  struct Piece {
    // First, once: without its body, which follows as `bytes`. A length that is not known is that
    // of a stream.
    std::optional<Answer> head;
    std::optional<int64_t> length;
    std::string bytes;
    bool last = false;
    bool broken = false;  // there was no memory for the rest: the connection is to be closed
  };
  // Nothing: not yet. REQUIRES: the one before has been written.
  std::optional<Piece> Take() ABSL_LOCKS_EXCLUDED(mutex_);

  // The piece has been written.
  void Written() { StopWaiting(); }
  // The client has gone.
  void Left();
  // The last piece was written, or was left.
  void End(bool left) ABSL_LOCKS_EXCLUDED(mutex_);

  // Words of a stream where there is no event for a while, ": step 12/30"; empty: it has not
  // begun. REQUIRES: as Take.
  std::string TakeComment() ABSL_LOCKS_EXCLUDED(mutex_);

  // The transport is gone: it is not called any more.
  void LeaveTransport() ABSL_LOCKS_EXCLUDED(transport_mutex_);

  // The request ends with CANCELLED, which its client is told.
  void Interrupt();

  struct Progress {
    int position = 0;  // in the queue
    bool started = false;
    int image = 0, step = 0, total_steps = 0;
  };
  Progress progress() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Abort() override;
  void Advance() override;
  bool CanBeResumed() const override { return false; }
  int64_t MaxPictureBytes(int64_t) const override { return 0; }
  bool TakesPreviews() const override { return dialect_->streams(); }

  std::optional<Piece> TryTake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes events until there is something to say, or all of them for an answer in one piece.
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const generation::OutgoingEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(generation::OutgoingEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: it is not known yet what to answer.
  bool TakeHead(Piece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Answer MakeHead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Dialect> dialect_;  // guarded by mutex_ once it has read the request
  absl::Mutex transport_mutex_;             // held while it is called
  std::optional<Transport> transport_ ABSL_GUARDED_BY(transport_mutex_);  // until End
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;                        // or refused
  bool streams_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool has_head_ ABSL_GUARDED_BY(mutex_) = false;
  int code_ ABSL_GUARDED_BY(mutex_) = 0;
  bool told_end_ ABSL_GUARDED_BY(mutex_) = false;
  AnswerBody body_ ABSL_GUARDED_BY(mutex_);
  Drawn drawn_ ABSL_GUARDED_BY(mutex_);
  Progress progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::http
