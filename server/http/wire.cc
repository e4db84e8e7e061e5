#include "server/http/wire.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/out_of_memory.h"
#include "server/http/exchange/target.h"
#include "server/http/operation_memory.h"

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
constexpr size_t kMostAtOnce = 64 << 10;

std::string TextOf(boost::beast::string_view text) { return std::string(text.data(), text.size()); }

std::string PeerName(const Tcp::endpoint& peer) {
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? absl::StrCat("ipv6:[", address, "]:", peer.port())
                                : absl::StrCat("ipv4:", address, ":", peer.port());
}

Request RequestOf(const Parser::value_type& message) {
  Request request;
  request.method = TextOf(message.method_string());
  SetTarget(TextOf(message.target()), request);
  for (const auto& field : message) {
    request.headers.emplace_back(TextOf(field.name_string()), TextOf(field.value()));
  }
  return request;
}

// A client that is there and has said something that is no request is not gone.
Wire::Outcome OutcomeOf(const Error& error) {
  if (!error) return Wire::Outcome::kDone;
  if (error.category() != make_error_code(beast_http::error::bad_target).category() ||
      error == beast_http::error::end_of_stream || error == beast_http::error::partial_message) {
    return Wire::Outcome::kGone;
  }
  if (error == beast_http::error::header_limit || error == beast_http::error::buffer_overflow) {
    return Wire::Outcome::kHeaderTooLarge;
  }
  if (error == beast_http::error::body_limit) return Wire::Outcome::kBodyTooLarge;
  return Wire::Outcome::kMalformed;
}

template <typename Stream>
class StreamWire final : public Wire {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  StreamWire(asio::io_context& io, Tcp::socket socket, std::shared_ptr<asio::ssl::context> tls,
             const HttpMetrics& metrics)
      : io_(io),
        metrics_(metrics),
        tls_(std::move(tls)),
        stream_(MakeStream(std::move(socket), tls_.get())),
        timer_(stream_.get_executor()),
        buffer_(kMostBufferBytes),
        open_(metrics.KeepOpen()) {}

  void Post(std::shared_ptr<Posted> posted) override {
    asio::post(io_.get_executor(),
               post_memory_.Holds([self = Self(), posted = std::move(posted)] { posted->Run(); }));
  }

  std::optional<std::string> Peer() override {
    Error error;
    const Tcp::endpoint peer = socket().remote_endpoint(error);
    if (error) return std::nullopt;
    return PeerName(peer);
  }

  void Handshake(DoneHandler done) override {
    if constexpr (kTls) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              read_memory_.Holds([self = Self()](Error error) {
                                std::exchange(self->shaken_, nullptr)(!error);
                              }));
      shaken_ = std::move(done);
    } else {
      done(true);
    }
  }

  PeerCertificate Certificate() override {
    if constexpr (kTls) {
      return PeerOf(stream_.native_handle());
    } else {
      return {};
    }
  }

  void ReadHead(ReadHandler done) override {
    parser_.emplace();
    parser_->header_limit(kMostHeadBytes);
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    parser_->eager(false);
    Read(std::move(done));
  }

  RequestHead Head() const override {
    RequestHead head = {.request = RequestOf(parser_->get()),
                        .version = parser_->get().version(),
                        .keep_alive = parser_->get().keep_alive()};
    if (const auto length = parser_->content_length()) head.length = *length;
    return head;
  }

  // The parser looks at the limit again with each chunk, but not where the head has said a length.
  void ReadBody(int64_t most, ReadHandler done) override {
    const auto limit = static_cast<uint64_t>(most);
    if (parser_->content_length().value_or(0) > limit) {
      return Begin(std::move(done), beast_http::error::body_limit);
    }
    parser_->body_limit(limit);
    parser_->eager(true);
    Read(std::move(done));
  }

  bool HasUnreadBody() const override { return parser_.has_value() && !parser_->is_done(); }

  std::string TakeBody() override {
    std::string body = std::move(parser_->get().body());
    parser_.reset();
    SkipEmptyLines();
    return body;
  }

  void ReadAhead(DoneHandler done) override {
    stream_.async_read_some(buffer_.prepare(kReadAhead),
                            read_memory_.Holds([self = Self()](Error error, size_t bytes) {
                              self->reads_ = false;
                              if (!error) {
                                self->buffer_.commit(bytes);
                                self->SkipEmptyLines();
                              }
                              std::exchange(self->ahead_is_read_, nullptr)(!error);
                            }));
    reads_ = true;
    ahead_is_read_ = std::move(done);
  }

  bool HasReadAhead() const override { return buffer_.size() > 0; }
  bool IsReading() const override { return reads_; }

  void Write(std::string bytes, DoneHandler done) override {
    out_ = std::move(bytes);
    sent_ = 0;
    is_written_ = std::move(done);
    WriteMore();
  }

  void Arm(absl::Duration time, Handler due) override {
    if (closed_) return;
    timer_.expires_after(absl::ToChronoMilliseconds(time));
    timer_.async_wait([self = Self(), number = ++timer_number_](Error error) {
      if (!error && number == self->timer_number_) std::exchange(self->due_, nullptr)();
    });
    due_ = std::move(due);
  }
  void Disarm() override {
    ++timer_number_;
    timer_.cancel();
    due_ = nullptr;
  }

  void SayGoodbye() override {
    if constexpr (kTls) {
      stream_.async_shutdown(write_memory_.Holds([self = Self()](Error) { self->Close(); }));
    } else {
      Error ignored;
      socket().shutdown(Tcp::socket::shutdown_send, ignored);
      if (!reads_) Discard();
    }
  }

  void Close() override {
    closed_ = true;
    open_.reset();
    Disarm();
    Error ignored;
    socket().close(ignored);
  }

  bool is_closed() const override { return closed_; }

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

  std::shared_ptr<StreamWire> Self() {
    return std::static_pointer_cast<StreamWire>(shared_from_this());
  }

  // Reads a part of a request: its head, or all of it.
  void Read(ReadHandler done) {
    std::optional<Error> end = Parse();
    if (!end) end = ReadMore();
    Begin(std::move(done), end);
  }

  // Tells later how the reading ended; nothing: Received will be called.
  void Begin(ReadHandler done, std::optional<Error> end) {
    reads_ = true;
    is_read_ = std::move(done);
    if (!end) return;
    asio::post(io_.get_executor(),
               read_memory_.Holds([self = Self(), end = *end] { self->EndRead(end); }));
  }

  bool HasPart() const { return parser_->eager() ? parser_->is_done() : parser_->is_header_done(); }

  // Leaves out empty lines before a request (RFC 9112, 2.2): clients of old end a body with one.
  // False: there may be more of one to come.
  bool SkipEmptyLines() {
    constexpr absl::string_view kEmptyLine = "\r\n";
    while (buffer_.size() > 0) {
      const absl::string_view next(static_cast<const char*>(buffer_.data().data()),
                                   std::min(buffer_.size(), kEmptyLine.size()));
      if (next != kEmptyLine) return next != kEmptyLine.substr(0, 1);
      buffer_.consume(next.size());
      metrics_.CountReceived(next.size());
    }
    return false;
  }

  // Reads the part out of what was received; how that ended, or nothing: there has to be more.
  std::optional<Error> Parse() {
    if (!parser_->got_some() && !SkipEmptyLines()) return std::nullopt;
    Error error;
    while (!HasPart() && buffer_.size() > 0 && !error) {
      const size_t used = parser_->put(buffer_.data(), error);
      buffer_.consume(used);
      metrics_.CountReceived(used);
    }
    if (error == beast_http::error::need_more || (!error && !HasPart())) return std::nullopt;
    return error;
  }

  // Nothing: Received will be called.
  std::optional<Error> ReadMore() {
    const size_t most = boost::beast::read_size(buffer_, kMostAtOnce);
    if (most == 0) return beast_http::error::buffer_overflow;
    stream_.async_read_some(buffer_.prepare(most),
                            read_memory_.Holds([self = Self()](Error error, size_t bytes) {
                              self->Received(error, bytes);
                            }));
    return std::nullopt;
  }

  void Received(const Error& error, size_t bytes) {
    buffer_.commit(bytes);
    std::optional<Error> end;
    const absl::Status read = CatchOutOfMemory([&] {
      end = error ? EndOfInput(error) : Parse();
      if (!end) end = ReadMore();
    });
    if (!read.ok()) end = asio::error::no_memory;
    if (end) EndRead(*end);
  }

  // A request may end with all that its client sends.
  Error EndOfInput(Error error) {
    if (error != asio::error::eof) return error;
    if (!parser_->got_some()) return beast_http::error::end_of_stream;
    parser_->put_eof(error);
    return error;
  }

  void EndRead(const Error& error) {
    reads_ = false;
    std::exchange(is_read_, nullptr)(OutcomeOf(error));
  }

  void WriteMore() {
    const size_t most = std::min(out_.size() - sent_, kMostAtOnce);
    stream_.async_write_some(asio::buffer(out_.data() + sent_, most),
                             write_memory_.Holds([self = Self()](Error error, size_t sent) {
                               self->Sent(error, sent);
                             }));
  }

  void Sent(const Error& error, size_t sent) {
    sent_ += sent;
    metrics_.CountSent(sent);
    if (!error && sent_ < out_.size()) return WriteMore();
    out_ = std::string();
    std::exchange(is_written_, nullptr)(!error);
  }

  void Discard() {
    buffer_.clear();
    const auto discard = [self = Self()](Error error, size_t) {
      if (error || self->closed_) return self->Close();
      if (!CatchOutOfMemory([&] { self->Discard(); }).ok()) self->Close();
    };
    stream_.async_read_some(buffer_.prepare(kReadAhead), read_memory_.Holds(discard));
  }

  asio::io_context& io_;
  const HttpMetrics& metrics_;
  const std::shared_ptr<asio::ssl::context> tls_;
  // All below belongs to the wire's thread. The stream goes before the memory of its operations.
  OperationMemory read_memory_, write_memory_, post_memory_;
  Stream stream_;
  asio::steady_timer timer_;
  int64_t timer_number_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string out_;  // while it is written, of which
  size_t sent_ = 0;  // are sent
  DoneHandler shaken_, ahead_is_read_, is_written_;
  ReadHandler is_read_;
  Handler due_;
  std::shared_ptr<const void> open_;  // until its socket is closed
  bool reads_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Wire> Wire::Make(asio::io_context& io, int descriptor,
                                 std::shared_ptr<asio::ssl::context> tls,
                                 const HttpMetrics& metrics) {
  absl::Cleanup close_it = [descriptor] { close(descriptor); };
  Tcp::socket socket(io);
  Error error;
  // The family that it is told is of no matter for what is done with it.
  socket.assign(Tcp::v4(), descriptor, error);
  if (error) return nullptr;
  std::move(close_it).Cancel();  // it is the socket's
  socket.set_option(Tcp::no_delay(true), error);
  if (tls == nullptr) {
    return std::make_shared<StreamWire<PlainStream>>(io, std::move(socket), nullptr, metrics);
  }
  return std::make_shared<StreamWire<TlsStream>>(io, std::move(socket), std::move(tls), metrics);
}

}  // namespace latentd::server::http
