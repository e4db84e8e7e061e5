#include "server/http/calls/http_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"

namespace latentd::server::http {
namespace {

// A client that left, in logs, as nginx has it.
constexpr int kClientClosedRequest = 499;

class HttpBody final : public generation::ReceivedRequest {
 public:
  HttpBody(Request http, Dialect& dialect, std::function<void()> let_go)
      : http_(std::move(http)), dialect_(dialect), let_go_(std::move(let_go)) {}

  int64_t size() const override { return static_cast<int64_t>(http_.body.size()); }
  absl::Status Parse(generation::ParsedRequest& parsed) override {
    return dialect_.Read(http_, parsed.request);
  }
  void Drop() override {
    http_.body = std::string();
    let_go_();
  }

 private:
  Request http_;
  Dialect& dialect_;
  const std::function<void()> let_go_;
};

}  // namespace

HttpCall::HttpCall(generation::CallEnvironment environment, generation::Client client,
                   std::unique_ptr<Dialect> dialect, Transport transport)
    : Generation(environment, std::move(client), dialect->method()),
      dialect_(std::move(dialect)),
      transport_(std::move(transport)) {}

void HttpCall::Start(Request http, std::function<void()> let_go) {
  HttpBody body(std::move(http), *dialect_, std::move(let_go));
  const absl::Status submitted = Submit(body);
  {
    absl::MutexLock lock(&mutex_);
    submitted_ = true;
    streams_ = submitted.ok() && dialect_->streams();
    if (!submitted.ok()) end_ = submitted;
  }
  Advance();
}

void HttpCall::Advance() {
  absl::MutexLock lock(&transport_mutex_);
  if (transport_) transport_->wake();
}

void HttpCall::Abort() {
  absl::MutexLock lock(&transport_mutex_);
  if (transport_) transport_->abort();
}

void HttpCall::LeaveTransport() {
  std::optional<Transport> left;  // gone once nothing is locked
  absl::MutexLock lock(&transport_mutex_);
  left.swap(transport_);
}

std::string HttpCall::TakeComment() {
  std::string comment;
  {
    absl::MutexLock lock(&mutex_);
    if (!streams_ || !has_head_ || end_) return "";
    comment = progress_.started
                  ? absl::StrCat(": step ", progress_.step, "/", progress_.total_steps, "\n\n")
                  : absl::StrCat(": queued ", progress_.position, "\n\n");
  }
  StartWaiting();
  return comment;
}

std::optional<HttpCall::Piece> HttpCall::Take() {
  std::optional<Piece> piece;
  const absl::Status taken = CatchOutOfMemory([&] { piece = TryTake(); });
  if (!taken.ok()) {
    Fail(taken);
    absl::MutexLock lock(&mutex_);
    if (!end_) end_ = taken;
    return Piece{.last = true, .broken = true};
  }
  if (piece) StartWaiting();
  return piece;
}

std::optional<HttpCall::Piece> HttpCall::TryTake() {
  absl::MutexLock lock(&mutex_);
  if (!submitted_) return std::nullopt;
  Collect();
  Piece piece;
  if (!has_head_ && !TakeHead(piece)) return std::nullopt;
  if (!body_.empty()) piece.bytes = body_.Take();
  const bool told = !streams_ || told_end_;
  piece.last = end_.has_value() && told && body_.empty();
  if (!piece.head && piece.bytes.empty() && !piece.last) return std::nullopt;
  return piece;
}

void HttpCall::Collect() {
  while (outbox_ && !end_ && (!streams_ || body_.empty())) {
    std::optional<generation::OutgoingEvent> event = NextEvent();
    if (!event) {
      end_ = outbox_->end();
      break;
    }
    Note(*event);
    if (streams_) {
      body_.Append(dialect_->Tell(*event, environment_.clock.Wall()));
    } else {
      Keep(*std::move(event));
    }
  }
  if (!streams_ || !end_ || told_end_ || !body_.empty()) return;
  told_end_ = true;
  body_.Append(dialect_->TellEnd(*end_));
}

void HttpCall::Note(const generation::OutgoingEvent& event) {
  const latent::v1::GenerateEvent& message = event.message;
  if (message.has_queued()) progress_.position = message.queued().position();
  if (message.has_started()) progress_.started = true;
  if (!message.has_progress()) return;
  progress_.image = message.progress().image_index();
  progress_.step = message.progress().step();
  progress_.total_steps = message.progress().total_steps();
}

void HttpCall::Keep(generation::OutgoingEvent event) {
  latent::v1::GenerateEvent& message = event.message;
  if (message.has_completed()) drawn_.completed = std::move(*message.mutable_completed());
  // The picture is kept whole with its first chunk.
  if (message.has_image_chunk() && message.image_chunk().offset() == 0) {
    drawn_.images.push_back(std::move(event.of));
  }
  drawn_.request_id = std::move(*message.mutable_request_id());
}

bool HttpCall::TakeHead(Piece& piece) {
  if (!streams_ && !end_) return false;
  Answer answer = MakeHead();
  has_head_ = true;
  code_ = answer.code;
  if (!streams_) {
    body_ = std::exchange(answer.body, AnswerBody());
    piece.length = body_.size();
  }
  piece.head = std::move(answer);
  return true;
}

Answer HttpCall::MakeHead() {
  if (streams_) {
    return {.content_type = "text/event-stream",
            .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}};
  }
  if (!end_->ok()) return dialect_->Refuse(*end_);
  drawn_.created = environment_.clock.Wall();
  Answer answer = dialect_->Show(drawn_);
  drawn_.images.clear();  // the answer has them
  return answer;
}

void HttpCall::Left() {
  AdvanceAfter([this] { ClientGone(); });
}

void HttpCall::End(bool left) {
  absl::Status end;
  int code = kClientClosedRequest;
  {
    absl::MutexLock lock(&mutex_);
    end = end_.value_or(absl::CancelledError());
    if (!left) code = code_;
    body_ = AnswerBody();
    drawn_.images.clear();
  }
  LeaveTransport();
  NoteHttpStatus(code);
  Done(end);
}

void HttpCall::Interrupt() {
  Fail(absl::CancelledError("the request was interrupted by its caller"));
}

HttpCall::Progress HttpCall::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

}  // namespace latentd::server::http
