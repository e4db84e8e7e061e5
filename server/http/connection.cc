#include "server/http/connection.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/engine/api/serving.h"
#include "server/generation/caller.h"
#include "server/http/calls/http_call.h"
#include "server/http/exchange/answer_head.h"
#include "server/http/exchange/http_status.h"
#include "server/http/exchange/origin.h"
#include "server/http/exchange/peer_name.h"
#include "server/http/exchange/target.h"
#include "server/http/peer_certificate.h"
#include "server/http/routes/request_limits.h"

namespace latentd::server::http {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;
using PlainStream = Tcp::socket;
using TlsStream = asio::ssl::stream<Tcp::socket>;
using Parser = beast_http::request_parser<beast_http::string_body>;

constexpr size_t kMostHeadBytes = 32 << 10;
constexpr size_t kMostBufferBytes = 128 << 10;
constexpr size_t kReadAhead = 4 << 10;
constexpr int kMostRequests = 1000;  // on one connection
constexpr absl::Duration kFirstBytes = absl::Seconds(20);
constexpr absl::Duration kBetweenRequests = absl::Seconds(75);
constexpr absl::Duration kWriteTime = absl::Seconds(60);
constexpr absl::Duration kCommentPause = absl::Seconds(15);
constexpr absl::Duration kLastBytes = absl::Seconds(2);
// A larger body is read by a thread of its own kind: it takes a while.
constexpr size_t kReadAtOnce = 256 << 10;

std::string TextOf(boost::beast::string_view text) { return std::string(text.data(), text.size()); }

Request RequestOf(const Parser::value_type& message) {
  Request request;
  request.method = TextOf(message.method_string());
  SetTarget(TextOf(message.target()), request);
  for (const auto& field : message) {
    request.headers.emplace_back(TextOf(field.name_string()), TextOf(field.value()));
  }
  return request;
}

absl::Status StatusOfRead(const Error& error) {
  if (error == beast_http::error::header_limit || error == beast_http::error::buffer_overflow) {
    return WithReason(absl::InvalidArgumentError("the header is too large"), kHeaderTooLarge);
  }
  if (error == beast_http::error::body_limit) {
    return WithReason(absl::InvalidArgumentError("the body is too large"), kTooLarge);
  }
  return WithReason(absl::InvalidArgumentError("this is no request of HTTP/1.1"), "MALFORMED");
}

// True where the client is there and has said something that is no request.
bool IsMalformed(const Error& error) {
  return error.category() == make_error_code(beast_http::error::bad_target).category() &&
         error != beast_http::error::end_of_stream && error != beast_http::error::partial_message;
}

template <typename Stream>
class StreamConnection final : public Connection,
                               public std::enable_shared_from_this<StreamConnection<Stream>> {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  StreamConnection(Service& service, Threads threads, Tcp::socket socket,
                   std::shared_ptr<asio::ssl::context> tls)
      : service_(service),
        threads_(threads),
        tls_(std::move(tls)),
        stream_(MakeStream(std::move(socket), tls_.get())),
        timer_(stream_.get_executor()),
        buffer_(kMostBufferBytes) {}

  void Begin() {
    Post([](StreamConnection& self) {
      Error error;
      const Tcp::endpoint peer = self.socket().remote_endpoint(error);
      if (error) return self.CloseSocket();
      self.peer_ = PeerName(peer.address().to_string(), peer.port());
      self.Handshake();
    });
  }

  void Drain() override {
    Post([](StreamConnection& self) {
      self.keep_alive_ = false;
      if (self.is_idle_) self.CloseSocket();
    });
  }

  void Close() override {
    Post([](StreamConnection& self) { self.Gone(); });
  }

 private:
  static Stream MakeStream(Tcp::socket socket, [[maybe_unused]] asio::ssl::context* tls) {
    if constexpr (kTls) {
      return Stream(std::move(socket), *tls);
    } else {
      return socket;
    }
  }

  Tcp::socket& socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  // Runs it on the strand.
  template <typename Function>
  void Post(Function function) {
    asio::post(stream_.get_executor(), [self = this->shared_from_this(), function] {
      self->Guarded([&] { function(*self); });
    });
  }

  // Closes the connection where there is no memory for what it does.
  template <typename Function>
  void Guarded(const Function& function) {
    if (!CatchOutOfMemory(function).ok()) Gone();
  }

  void Arm(absl::Duration time) {
    timer_.expires_after(absl::ToChronoMilliseconds(time));
    timer_.async_wait([self = this->shared_from_this(), number = ++timer_number_](Error error) {
      if (error || number != self->timer_number_) return;
      self->Guarded([&] { self->TimeIsUp(); });
    });
  }
  void Disarm() {
    ++timer_number_;
    timer_.cancel();
  }

  void TimeIsUp() {
    if (call_ != nullptr) return Comment();
    if (reads_body_) {
      reads_body_ = false;
      return Refuse(WithReason(absl::InvalidArgumentError("the body comes too slowly"), kTooSlow));
    }
    CloseSocket();
  }

  void Handshake() {
    if constexpr (kTls) {
      Arm(kFirstBytes);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (error) return self->CloseSocket();
                                self->Guarded([&] {
                                  self->certificate_ = PeerOf(self->stream_.native_handle());
                                  self->ReadHead(kFirstBytes);
                                });
                              });
    } else {
      ReadHead(kFirstBytes);
    }
  }

  void ReadHead(absl::Duration time) {
    is_idle_ = true;
    if (service_.draining) return CloseSocket();
    parser_.emplace();
    parser_->header_limit(kMostHeadBytes);
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    Arm(time);
    beast_http::async_read_header(stream_, buffer_, *parser_,
                                  [self = this->shared_from_this()](Error error, size_t) {
                                    self->Guarded([&] { self->HeadIsRead(error); });
                                  });
  }

  void HeadIsRead(const Error& error) {
    Disarm();
    is_idle_ = false;
    if (gone_) return;
    if (error && !IsMalformed(error)) return CloseSocket();
    keep_alive_ = false;
    cors_.clear();
    if (error) return Refuse(StatusOfRead(error));
    request_ = RequestOf(parser_->get());
    cors_ = CorsHeaders(request_, service_.cors_origins);
    version_ = parser_->get().version();
    keep_alive_ = parser_->get().keep_alive() && ++requests_ < kMostRequests && !service_.draining;
    absl::Status judged = CheckOrigin(request_, service_.loopback_only, service_.cors_origins);
    if (judged.ok() && IsPreflight(request_, service_.cors_origins)) return AnswerPreflight();
    if (judged.ok()) judged = Judge();
    if (!judged.ok()) return RefuseUnread(judged);
    if (parser_->is_done()) return Handle();
    if (absl::EqualsIgnoreCase(request_.Find("expect"), "100-continue")) return Continue();
    ReadBody();
  }

  // Judges who it is, what it asks for, and how much that is.
  absl::Status Judge() {
    if (version_ != 10 && version_ != 11) return StatusOfRead(beast_http::error::bad_version);
    Router::Found found = service_.router.Find(request_.method, request_.path);
    route_ = found.route;
    allow_ = std::move(found.allow);
    if (route_ == nullptr) return found.status;
    const absl::Status judged = CheckClient();
    if (!judged.ok()) return judged;
    std::optional<uint64_t> length;
    if (const auto said = parser_->content_length()) length = *said;
    most_bytes_ = MostBodyBytes(*route_, request_, service_.max_request_bytes);
    body_bytes_ = length ? static_cast<int64_t>(*length) : most_bytes_;
    return CheckBody(request_, length, most_bytes_);
  }

  absl::Status CheckClient() {
    caller_ = generation::HostOf(peer_);
    if (route_->open_to_all) return absl::OkStatus();
    absl::Status judged = CheckCertificate();
    return judged.ok() ? CheckKey() : judged;
  }

  absl::Status CheckKey() {
    const generation::KeyCheck& caller_of_key = service_.environment.caller_of_key;
    if (caller_of_key == nullptr) return absl::OkStatus();
    absl::StatusOr<std::string> caller =
        caller_of_key(request_.Find("authorization"), request_.Find("x-api-key"));
    if (caller.ok()) caller_ = *std::move(caller);
    return caller.status();
  }

  absl::Status CheckCertificate() {
    if (service_.clients == nullptr) return absl::OkStatus();
    absl::Status judged = service_.clients->Check(certificate_.certificate, certificate_.chain);
    if (!judged.ok()) return judged;
    const std::vector<absl::string_view> names(certificate_.names.begin(),
                                               certificate_.names.end());
    caller_ = generation::CallerOf(names);
    return judged;
  }

  void Continue() {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    Arm(kWriteTime);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        if (error) return self->Gone();
                        self->Guarded([&] { self->ReadBody(); });
                      });
  }

  void ReadBody() {
    held_body_ = service_.bodies.Hold(body_bytes_);
    if (held_body_ == nullptr) {
      return RefuseUnread(WithRetryDelay(
          WithReason(absl::ResourceExhaustedError("the server is reading too many bodies"),
                     kTooManyBodies),
          absl::Seconds(1)));
    }
    parser_->body_limit(static_cast<uint64_t>(most_bytes_));
    reads_body_ = body_is_pending_ = true;
    Arm(TimeFor(body_bytes_));
    beast_http::async_read(stream_, buffer_, *parser_,
                           [self = this->shared_from_this()](Error error, size_t) {
                             self->Guarded([&] { self->BodyIsRead(error); });
                           });
  }

  void BodyIsRead(const Error& error) {
    body_is_pending_ = false;
    if (!reads_body_) return;  // it was too slow
    reads_body_ = false;
    Disarm();
    if (gone_) return;
    if (!error) return Handle();
    if (!IsMalformed(error)) return CloseSocket();
    RefuseUnread(StatusOfRead(error));
  }

  void Handle() {
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    if (route_->dialect) return StartCall();
    held_body_.reset();
    if (route_->takes_time) return AnswerLater();
    Send(route_->answer(request_, caller_));
  }

  // By a thread that may wait.
  void AnswerLater() {
    asio::post(threads_.readers, [self = this->shared_from_this()] {
      const absl::Status made = CatchOutOfMemory([&] {
        self->Post([answer = self->route_->answer(self->request_, self->caller_)](
                       StreamConnection& later) { later.Send(answer); });
      });
      if (!made.ok()) self->Close();
    });
  }

  // An error behind which the connection cannot go on: a body that was not read is on its way.
  void RefuseUnread(const absl::Status& status) {
    const bool has_body = parser_.has_value() && !parser_->is_done();
    if (has_body) keep_alive_ = false;
    Refuse(status);
  }

  // Before any key, which browsers leave out of it.
  void AnswerPreflight() {
    if (!parser_->is_done()) keep_alive_ = false;
    Send(PreflightAnswer());
  }

  void Refuse(const absl::Status& status) {
    held_body_.reset();
    Answer answer = RefuseAt(request_.path, status);
    if (!allow_.empty()) answer.headers.emplace_back("Allow", std::exchange(allow_, ""));
    Send(std::move(answer));
  }

  // An answer in one piece.
  void Send(Answer answer) {
    if (answer.close) keep_alive_ = false;
    AddCors(answer);
    const Framing framing = {.length = answer.body.size(), .keep_alive = keep_alive_};
    out_ = HeadOf(answer, framing, service_.environment.clock.Wall());
    while (request_.method != "HEAD" && !answer.body.empty()) out_ += answer.body.Take();
    Arm(kWriteTime);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        if (error) return self->Gone();
                        self->Guarded([&] { self->AnswerIsSent(); });
                      });
  }

  void AddCors(Answer& answer) {
    answer.headers.insert(answer.headers.end(), cors_.begin(), cors_.end());
  }

  void AnswerIsSent() {
    Disarm();
    out_ = std::string();
    request_ = Request();
    if (gone_) return;
    if (!keep_alive_ || service_.draining) return SayGoodbye();
    if (!watches_) return ReadHead(kBetweenRequests);
    is_idle_ = true;
    Arm(kBetweenRequests);
  }

  generation::Client ClientOfRequest() const {
    return {.caller = caller_,
            .peer = peer_,
            .deadline = DeadlineOf(request_, service_.environment.clock.Wall()),
            .trace_parent = std::string(request_.Find("traceparent")),
            .trace_state = std::string(request_.Find("tracestate"))};
  }

  HttpCall::Transport MakeTransport() {
    const auto self = this->shared_from_this();
    return {.wake = [self] { self->Post([](StreamConnection& woken) { woken.Pump(); }); },
            .abort = [self] { self->Close(); }};
  }

  void StartCall() {
    const auto call = std::make_shared<HttpCall>(service_.environment, ClientOfRequest(),
                                                 route_->dialect(), MakeTransport());
    const absl::Status entered = call->Enter();
    if (!entered.ok()) {
      call->LeaveTransport();
      return Refuse(entered);
    }
    call_ = call;
    service_.running.Add(caller_, call);
    Watch();
    Arm(kCommentPause);
    const bool at_once = request_.body.size() <= kReadAtOnce;
    auto start = [call, request = std::move(request_), held = std::move(held_body_)]() mutable {
      call->Start(std::move(request), [held = std::move(held)]() mutable { held.reset(); });
    };
    held_body_.reset();
    request_ = Request();
    if (at_once) return start();
    asio::post(threads_.readers, std::move(start));
  }

  // Reads what comes, to see whether the client leaves.
  void Watch() {
    if (watches_ || buffer_.size() > 0) return;
    watches_ = true;
    stream_.async_read_some(buffer_.prepare(kReadAhead),
                            [self = this->shared_from_this()](Error error, size_t bytes) {
                              self->Guarded([&] { self->HaveSeen(error, bytes); });
                            });
  }

  void HaveSeen(const Error& error, size_t bytes) {
    watches_ = false;
    if (error) return Gone();
    buffer_.commit(bytes);
    if (is_idle_) ReadHead(kFirstBytes);
  }

  void Pump() {
    while (call_ != nullptr && !writes_) {
      std::optional<HttpCall::Piece> piece = call_->Take();
      if (!piece) return;
      if (piece->broken) Gone();
      if (!gone_) return Write(*std::move(piece));
      if (piece->last && call_ != nullptr) EndCall();  // Gone may have ended it
    }
  }

  void Write(HttpCall::Piece piece) {
    out_ = std::string();
    if (piece.head) {
      chunked_ = !piece.length && version_ == 11;
      if (piece.head->close || (!piece.length && !chunked_)) keep_alive_ = false;
      if (service_.draining) keep_alive_ = false;
      AddCors(*piece.head);
      out_ = HeadOf(*piece.head,
                    {.length = piece.length,
                     .chunked = chunked_,
                     .keep_alive = keep_alive_,
                     .request_id = call_->request_id()},
                    service_.environment.clock.Wall());
    }
    out_ += FrameOf(piece.bytes, chunked_, piece.last);
    WriteOut(piece.last);
  }

  void WriteOut(bool last) {
    writes_ = true;
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this(), last](Error error, size_t) {
                        self->Guarded([&] { self->PieceIsWritten(error, last); });
                      });
  }

  void PieceIsWritten(const Error& error, bool last) {
    writes_ = false;
    if (call_ != nullptr) call_->Written();
    if (error || gone_) {
      Gone();
      return Pump();  // it may have gone while the piece was being written
    }
    if (!last) {
      Arm(kCommentPause);
      return Pump();
    }
    EndCall();
    chunked_ = false;
    AnswerIsSent();
  }

  // A stream that has been silent says where it is: it keeps proxies patient, and finds clients
  // that have gone without a word.
  void Comment() {
    if (!writes_) {
      const std::string comment = call_->TakeComment();
      if (!comment.empty()) {
        out_ = FrameOf(comment, chunked_, /*last=*/false);
        return WriteOut(/*last=*/false);
      }
    }
    Arm(kCommentPause);
  }

  void EndCall() {
    const std::shared_ptr<HttpCall> call = std::exchange(call_, nullptr);
    call->End(gone_);
  }

  // The client is there no more, or is to be left: its request is cancelled.
  void Gone() {
    if (gone_) return;
    CloseSocket();
    if (call_ == nullptr) return;
    call_->Left();
    Pump();
  }

  // The last bytes of an answer would be lost if what the client still sends came to a closed
  // socket.
  void SayGoodbye() {
    Arm(kLastBytes);
    if constexpr (kTls) {
      stream_.async_shutdown([self = this->shared_from_this()](Error) { self->CloseSocket(); });
    } else {
      Error ignored;
      socket().shutdown(Tcp::socket::shutdown_send, ignored);
      if (!watches_ && !body_is_pending_) Discard();
    }
  }

  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kReadAhead),
                            [self = this->shared_from_this()](Error error, size_t) {
                              if (error || self->gone_) return self->CloseSocket();
                              self->Guarded([&] { self->Discard(); });
                            });
  }

  void CloseSocket() {
    gone_ = true;
    Disarm();
    Error ignored;
    socket().close(ignored);
  }

  Service& service_;
  const Threads threads_;
  const std::shared_ptr<asio::ssl::context> tls_;
  // All below belongs to the strand.
  Stream stream_;
  asio::steady_timer timer_;
  int64_t timer_number_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string peer_, caller_;
  PeerCertificate certificate_;
  Request request_;
  unsigned version_ = 11;
  int requests_ = 0;
  const Route* route_ = nullptr;
  std::string allow_;
  std::vector<Header> cors_;
  int64_t most_bytes_ = 0, body_bytes_ = 0;
  std::shared_ptr<const void> held_body_;
  std::string out_;  // while it is written
  std::shared_ptr<HttpCall> call_;
  bool keep_alive_ = false;
  bool chunked_ = false;
  bool is_idle_ = false;          // no request has begun
  bool reads_body_ = false;       // and it may still become a request
  bool body_is_pending_ = false;  // a read of it is under way
  bool watches_ = false;          // a read is under way beside the call
  bool writes_ = false;           // the same of a piece of the call's
  bool gone_ = false;
};

}  // namespace

std::shared_ptr<Connection> Connection::Start(Service& service, Threads threads, int descriptor,
                                              std::shared_ptr<asio::ssl::context> tls) {
  Tcp::socket socket(asio::make_strand(threads.io));
  Error error;
  // The family that it is told is of no matter for what is done with it.
  socket.assign(Tcp::v4(), descriptor, error);
  if (error) {
    close(descriptor);
    return nullptr;
  }
  socket.set_option(Tcp::no_delay(true), error);
  if (tls == nullptr) {
    auto plain =
        std::make_shared<StreamConnection<PlainStream>>(service, threads, std::move(socket), tls);
    plain->Begin();
    return plain;
  }
  auto secure =
      std::make_shared<StreamConnection<TlsStream>>(service, threads, std::move(socket), tls);
  secure->Begin();
  return secure;
}

}  // namespace latentd::server::http
