#include "server/http/connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "server/http/calls/http_call.h"
#include "server/http/exchange/answer_head.h"
#include "server/http/exchange/http_status.h"
#include "server/http/exchange/origin.h"
#include "server/http/head_judgement.h"
#include "server/http/routes/request_limits.h"
#include "server/http/wire.h"

namespace latentd::server::http {
namespace {

using Outcome = Wire::Outcome;

constexpr int kMostRequests = 1000;  // on one connection
constexpr absl::Duration kFirstBytes = absl::Seconds(20);
constexpr absl::Duration kBetweenRequests = absl::Seconds(75);
constexpr absl::Duration kWriteTime = absl::Seconds(60);
constexpr int64_t kSlowestRead = 64 << 10;  // bytes a second of a large answer
constexpr absl::Duration kCommentPause = absl::Seconds(15);
constexpr absl::Duration kLastBytes = absl::Seconds(2);
// A larger body is read by a thread of its own kind: it takes a while.
constexpr size_t kReadAtOnce = 256 << 10;
// An answer is written in pieces of no more than so many bytes and one that AnswerBody gives.
constexpr size_t kPieceBytes = 64 << 10;

absl::Status StatusOfRead(Outcome outcome) {
  if (outcome == Outcome::kHeaderTooLarge) {
    return WithReason(absl::InvalidArgumentError("the header is too large"), kHeaderTooLarge);
  }
  if (outcome == Outcome::kBodyTooLarge) {
    return WithReason(absl::InvalidArgumentError("the body is too large"), kTooLarge);
  }
  return WithReason(absl::InvalidArgumentError("this is no request of HTTP/1.1"), "MALFORMED");
}

// Starts a call with its request, once; takes no memory of its own for that.
class CallStart {
 public:
  CallStart(std::shared_ptr<HttpCall> call, std::shared_ptr<const void> held_body)
      : let_go_([held = std::move(held_body)]() mutable { held.reset(); }),
        call_(std::move(call)) {}

  void Run() { call_->Start(std::move(request), std::move(let_go_)); }

  Request request;  // taken by Run

 private:
  std::function<void()> let_go_;
  const std::shared_ptr<HttpCall> call_;
};

class WireConnection final : public Connection,
                             public Wire::Posted,
                             public std::enable_shared_from_this<WireConnection> {
 public:
  WireConnection(Service& service, Threads threads, std::shared_ptr<Wire> wire)
      : service_(service), threads_(threads), wire_(std::move(wire)) {}

  void Begin() { Raise(kBegun); }
  void Drain() override { Raise(kDrains); }
  void Close() override { Raise(kLeft); }

 private:
  // Words of other threads, each until the wire's thread has heard it.
  enum Signal : unsigned { kBegun = 1, kAnswered = 2, kAwake = 4, kDrains = 8, kLeft = 16 };

  // Takes no memory: other threads could do nothing without. Thread-safe.
  void Raise(Signal signal) {
    if (signals_.fetch_or(signal) == 0) wire_->Post(shared_from_this());
  }

  // A handler of the wire's, which keeps the connection; it is closed where there is no memory for
  // what is done.
  template <typename Function>
  auto Then(Function function) {
    return [self = shared_from_this(), function = std::move(function)](auto... said) {
      if (!CatchOutOfMemory([&] { function(said...); }).ok()) self->Gone();
    };
  }

  void Run() override {
    Then([this, signals = signals_.exchange(0)] { Hear(signals); })();
  }

  void Hear(unsigned signals) {
    if ((signals & kBegun) != 0) Meet();
    if ((signals & kAnswered) != 0 && !wire_->is_closed()) Send(std::exchange(later_, Answer()));
    if ((signals & kDrains) != 0) EndIdle();
    if ((signals & kAwake) != 0) Pump();
    if ((signals & kLeft) != 0) Gone();
  }

  void EndIdle() {
    keep_alive_ = false;
    if (is_idle_ && requests_ > 0) wire_->Close();
  }

  void Arm(absl::Duration time) {
    wire_->Arm(time, Then([this] { TimeIsUp(); }));
  }

  void TimeIsUp() {
    if (call_ != nullptr) return Comment();
    if (reads_body_) {
      reads_body_ = false;
      return Refuse(WithReason(absl::InvalidArgumentError("the body comes too slowly"), kTooSlow));
    }
    wire_->Close();
  }

  void Meet() {
    std::optional<std::string> peer = wire_->Peer();
    if (!peer) return wire_->Close();
    peer_ = *std::move(peer);
    Arm(kFirstBytes);
    wire_->Handshake(Then([this](bool done) { return done ? Accept() : RefuseHandshake(); }));
  }

  void RefuseHandshake() {
    service_.metrics.CountRefused(HttpMetrics::Refusal::kTls);
    wire_->Close();
  }

  void Accept() {
    certificate_ = wire_->Certificate();
    service_.metrics.CountAccepted();
    ReadHead(kFirstBytes);
  }

  void ReadHead(absl::Duration time) {
    is_idle_ = true;
    judged_ = Judgement();
    if (service_.draining && requests_ > 0) return wire_->Close();
    Arm(time);
    wire_->ReadHead(Then([this](Outcome outcome) { HeadIsRead(outcome); }));
  }

  void HeadIsRead(Outcome outcome) {
    wire_->Disarm();
    is_idle_ = false;
    if (wire_->is_closed()) return;
    if (outcome == Outcome::kGone) return wire_->Close();
    keep_alive_ = false;
    if (outcome != Outcome::kDone) return Refuse(StatusOfRead(outcome));
    RequestHead head = wire_->Head();
    ++requests_;
    judged_ = Judge(service_, head, peer_, certificate_);
    version_ = head.version;
    // The end of a body is not sure behind a head that is not.
    keep_alive_ =
        judged_.is_sound && head.keep_alive && requests_ < kMostRequests && !service_.draining;
    request_ = std::move(head.request);
    if (judged_.is_preflight) return AnswerPreflight();
    if (!judged_.status.ok()) return RefuseUnread(judged_.status);
    if (!wire_->HasUnreadBody()) return Handle();
    if (ExpectsContinue()) return Continue();
    ReadBody();
  }

  // Writes it, and does `next` once it is sent.
  void WriteThen(std::string bytes, void (WireConnection::*next)(),
                 absl::Duration time = kWriteTime) {
    Arm(time);
    wire_->Write(std::move(bytes),
                 Then([this, next](bool sent) { return sent ? (this->*next)() : Gone(); }));
  }

  // A client of HTTP/1.0 would take it for the answer.
  bool ExpectsContinue() const {
    return version_ == 11 && absl::EqualsIgnoreCase(request_.Find("expect"), "100-continue");
  }

  void Continue() { WriteThen("HTTP/1.1 100 Continue\r\n\r\n", &WireConnection::ReadBody); }

  void ReadBody() {
    held_body_ = service_.bodies.Hold(judged_.body_bytes);
    if (held_body_ == nullptr) {
      return RefuseUnread(WithRetryDelay(
          WithReason(absl::ResourceExhaustedError("the server is reading too many bodies"),
                     kTooManyBodies),
          absl::Seconds(1)));
    }
    reads_body_ = true;
    Arm(TimeFor(judged_.body_bytes));
    wire_->ReadBody(judged_.most_bytes, Then([this](Outcome outcome) { BodyIsRead(outcome); }));
  }

  void BodyIsRead(Outcome outcome) {
    if (!reads_body_) return;  // it was too slow
    reads_body_ = false;
    wire_->Disarm();
    if (wire_->is_closed()) return;
    if (outcome == Outcome::kDone) return Handle();
    if (outcome == Outcome::kGone) return wire_->Close();
    RefuseUnread(StatusOfRead(outcome));
  }

  void Handle() {
    request_.body = wire_->TakeBody();
    if (judged_.route->dialect) return StartCall();
    if (judged_.route->submit) return SubmitLater();
    held_body_.reset();
    const auto answer = [this] { return judged_.route->answer(request_, judged_.caller); };
    if (judged_.route->takes_time) return AnswerLater(threads_.listings, answer);
    Send(answer());
  }

  // A request that is submitted goes on without the connection.
  void SubmitLater() {
    AnswerLater(threads_.readers, [this, held = std::move(held_body_)] {
      generation::Client client = ClientOfRequest();  // by headers of the request
      return judged_.route->submit(std::move(request_), std::move(client));
    });
  }

  // Makes the answer by a thread that may wait; the connection does nothing meanwhile but close.
  template <typename Make>
  void AnswerLater(boost::asio::thread_pool& pool, Make make) {
    boost::asio::post(pool, [this, self = shared_from_this(), make = std::move(make)] {
      const absl::Status made = CatchOutOfMemory([&] { later_ = make(); });
      Raise(made.ok() ? kAnswered : kLeft);
    });
  }

  // An error behind which the connection cannot go on: a body that was not read is on its way.
  void RefuseUnread(const absl::Status& status) {
    if (wire_->HasUnreadBody()) keep_alive_ = false;
    Refuse(status);
  }

  void AnswerPreflight() {
    if (wire_->HasUnreadBody()) keep_alive_ = false;
    Send(PreflightAnswer());
  }

  void Refuse(const absl::Status& status) {
    held_body_.reset();
    Answer answer = RefuseAt(request_.path, status);
    if (!judged_.allow.empty()) answer.headers.emplace_back("Allow", std::move(judged_.allow));
    Send(std::move(answer));
  }

  // An answer in one piece.
  void Send(Answer answer) {
    if (answer.close) keep_alive_ = false;
    AddCors(answer);
    service_.metrics.CountResponse(judged_.route, answer.code);
    const Framing framing = {.length = answer.body.size(), .keep_alive = keep_alive_};
    sent_by_ = Now() + kWriteTime + absl::Seconds(answer.body.size() / kSlowestRead);
    std::string head = HeadOf(answer, framing, service_.environment.clock.Wall());
    const bool has_body = request_.method != "HEAD";
    rest_ = has_body ? std::exchange(answer.body, AnswerBody()) : AnswerBody();
    SendPiece(std::move(head));
  }

  // Sends the rest piece by piece: a large file is in memory once, however many clients read it,
  // and none of them keeps it there by reading slowly.
  void SendPiece(std::string bytes) {
    while (!rest_.empty() && bytes.size() < kPieceBytes) bytes += rest_.Take();
    WriteThen(std::move(bytes), &WireConnection::PieceIsSent,
              std::min(kWriteTime, sent_by_ - Now()));
  }

  absl::Time Now() const { return service_.environment.clock.Monotonic(); }

  void PieceIsSent() {
    if (rest_.empty() || wire_->is_closed()) return AnswerIsSent();
    SendPiece("");
  }

  void AddCors(Answer& answer) {
    answer.headers.insert(answer.headers.end(), judged_.cors.begin(), judged_.cors.end());
  }

  void AnswerIsSent() {
    wire_->Disarm();
    rest_ = AnswerBody();
    request_ = Request();
    if (wire_->is_closed()) return;
    if (!keep_alive_ || service_.draining) return SayGoodbye();
    if (!wire_->IsReading()) return ReadHead(kBetweenRequests);
    is_idle_ = true;
    Arm(kBetweenRequests);
  }

  void SayGoodbye() {
    Arm(kLastBytes);
    wire_->SayGoodbye();
  }

  generation::Client ClientOfRequest() const {
    return {.caller = judged_.caller.name,
            .peer = peer_,
            .deadline = judged_.deadline,
            .trace_parent = std::string(request_.Find("traceparent")),
            .trace_state = std::string(request_.Find("tracestate"))};
  }

  HttpCall::Transport MakeTransport() {
    return {.wake = [self = shared_from_this()] { self->Raise(kAwake); },
            .abort = [self = shared_from_this()] { self->Raise(kLeft); }};
  }

  // A call that has entered ends only once it has started: nothing in between takes memory.
  void StartCall() {
    const auto call = std::make_shared<HttpCall>(service_.environment, ClientOfRequest(),
                                                 judged_.route->dialect(), MakeTransport());
    const auto start = std::make_shared<CallStart>(call, std::move(held_body_));
    service_.running.Add(judged_.caller.name, call);
    const absl::Status entered = call->Enter();
    if (!entered.ok()) {
      call->LeaveTransport();
      return Refuse(entered);
    }
    call_ = call;
    const bool at_once = request_.body.size() <= kReadAtOnce;
    start->request = std::exchange(request_, Request());
    if (at_once || !PostToReaders(start)) start->Run();
    Watch();
    Arm(kCommentPause);
  }

  // False: there is no memory for it.
  bool PostToReaders(const std::shared_ptr<CallStart>& start) {
    return CatchOutOfMemory([&] { boost::asio::post(threads_.readers, [start] { start->Run(); }); })
        .ok();
  }

  // Reads what comes, to see whether the client leaves.
  void Watch() {
    if (wire_->IsReading() || wire_->HasReadAhead()) return;
    wire_->ReadAhead(Then([this](bool here) {
      if (!here) return Gone();
      if (!wire_->HasReadAhead()) return Watch();  // an empty line alone
      if (is_idle_) ReadHead(kFirstBytes);
    }));
  }

  void Pump() {
    while (call_ != nullptr && !writes_) {
      std::optional<HttpCall::Piece> piece = call_->Take();
      if (!piece) return;
      if (piece->broken) Gone();
      if (!wire_->is_closed()) return Write(*std::move(piece));
      if (piece->last && call_ != nullptr) EndCall(/*left=*/true);  // Gone may have ended it
    }
  }

  void Write(HttpCall::Piece piece) {
    std::string bytes;
    if (piece.head) {
      chunked_ = !piece.length && version_ == 11;
      if (piece.head->close || (!piece.length && !chunked_)) keep_alive_ = false;
      if (service_.draining) keep_alive_ = false;
      AddCors(*piece.head);
      service_.metrics.CountResponse(judged_.route, piece.head->code);
      bytes = HeadOf(*piece.head,
                     {.length = piece.length,
                      .chunked = chunked_,
                      .keep_alive = keep_alive_,
                      .request_id = call_->request_id()},
                     service_.environment.clock.Wall());
    }
    bytes += FrameOf(piece.bytes, chunked_, piece.last);
    WritePiece(std::move(bytes), piece.last);
  }

  void WritePiece(std::string bytes, bool last) {
    wire_->Write(std::move(bytes), Then([this, last](bool sent) { PieceIsWritten(sent, last); }));
    writes_ = true;
    writes_last_ = last;
  }

  void PieceIsWritten(bool sent, bool last) {
    writes_ = false;
    writes_last_ = false;
    if (call_ != nullptr) call_->Written();
    if (sent && last) return CallIsAnswered();
    if (!sent || wire_->is_closed()) {
      Gone();
      if (last) LeaveCall();
      return Pump();  // it may have gone while the piece was being written
    }
    Arm(kCommentPause);
    Pump();
  }

  // The client has all of the answer, whether it has gone since or not.
  void CallIsAnswered() {
    EndCall(/*left=*/false);
    chunked_ = false;
    AnswerIsSent();
  }

  // A stream that has been silent says where it is: it keeps proxies patient, and finds clients
  // that have gone without a word.
  void Comment() {
    if (!writes_) {
      const std::string comment = call_->TakeComment();
      if (!comment.empty()) {
        return WritePiece(FrameOf(comment, chunked_, /*last=*/false), /*last=*/false);
      }
    }
    Arm(kCommentPause);
  }

  void EndCall(bool left) {
    const std::shared_ptr<HttpCall> call = std::exchange(call_, nullptr);
    call->End(left);
  }

  // The client is there no more, or is to be left: its request is cancelled. If the end of its
  // answer is under way, it is known only then whether it has all of it.
  void Gone() {
    if (wire_->is_closed()) return;
    wire_->Close();
    if (!writes_last_) LeaveCall();
  }

  void LeaveCall() {
    if (call_ == nullptr) return;
    call_->Left();
    Pump();
  }

  Service& service_;
  const Threads threads_;
  const std::shared_ptr<Wire> wire_;
  std::atomic<unsigned> signals_ = 0;  // Signal
  Answer later_;                       // the wire's thread's from kAnswered on
  // All below belongs to the wire's thread.
  std::string peer_;
  PeerCertificate certificate_;
  Request request_;
  Judgement judged_;  // the request's
  unsigned version_ = 11;
  int requests_ = 0;
  std::shared_ptr<const void> held_body_;
  AnswerBody rest_;     // the part of an answer in one piece that is not sent
  absl::Time sent_by_;  // and when it has to be
  std::shared_ptr<HttpCall> call_;
  bool keep_alive_ = false;
  bool chunked_ = false;
  bool is_idle_ = false;      // no request has begun
  bool reads_body_ = false;   // and it may still become a request
  bool writes_ = false;       // a piece of the call's is under way
  bool writes_last_ = false;  // and it is the call's last
};

}  // namespace

std::shared_ptr<Connection> Connection::Start(Service& service, Threads threads, int descriptor,
                                              std::shared_ptr<boost::asio::ssl::context> tls) {
  std::shared_ptr<Wire> wire = Wire::Make(threads.io, descriptor, std::move(tls), service.metrics);
  return wire == nullptr ? nullptr : Start(service, threads, std::move(wire));
}

std::shared_ptr<Connection> Connection::Start(Service& service, Threads threads,
                                              std::shared_ptr<Wire> wire) {
  auto connection = std::make_shared<WireConnection>(service, threads, std::move(wire));
  connection->Begin();
  return connection;
}

}  // namespace latentd::server::http
