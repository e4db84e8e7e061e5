// The socket of a connection, over TCP or TLS: it reads requests, writes bytes, and has a timer. It
// knows nothing of what requests mean, nor of what is due when.
//
// All of it runs on one thread, that of its io_context: functions are called there, but Post, and
// handlers are. Each handler is called once, later, that of a wire which is closed meanwhile, or
// for whose bytes there is no memory, with kGone or false; it keeps what it holds until then.
// Handlers let no exception out. A function that throws std::bad_alloc has begun nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/http/exchange/exchange.h"
#include "server/http/http_metrics.h"
#include "server/http/peer_certificate.h"

// Boost's, of which only this directory's .cc files see more.
namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace latentd::server::http {

// A request but its body, as it was read.
struct RequestHead {
  Request request;
  unsigned version = 11;  // HTTP's: 10 or 11, or one that is not known
  bool keep_alive = false;
  std::optional<uint64_t> length;  // its body's, where it is said
};

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum class Outcome : uint8_t { kDone, kGone, kHeaderTooLarge, kBodyTooLarge, kMalformed };
  using Handler = std::function<void()>;
  using ReadHandler = std::function<void(Outcome)>;
  using DoneHandler = std::function<void(bool done)>;

  // Takes the socket of `descriptor`, which never blocks; null, and it is closed, where that fails.
  // It is closed where this throws std::bad_alloc, too. `tls`: null for plain text. `metrics`,
  // which count it as open until it is closed, and its bytes, outlive it, as `io` does.
  static std::shared_ptr<Wire> Make(boost::asio::io_context& io, int descriptor,
                                    std::shared_ptr<boost::asio::ssl::context> tls,
                                    const HttpMetrics& metrics);

  virtual ~Wire() = default;

  class Posted {
   public:
    virtual ~Posted() = default;
    virtual void Run() = 0;
  };
  // Runs it on the wire's thread, and takes no memory for that. Thread-safe. REQUIRES: all that was
  // posted before runs, or has run.
  virtual void Post(std::shared_ptr<Posted> posted) = 0;

  // The client's address, as gRPC names a peer; nothing: it has gone.
  virtual std::optional<std::string> Peer() = 0;

  // `done` is called at once where it speaks no TLS.
  virtual void Handshake(DoneHandler done) = 0;
  // The certificate that the client has shown in the handshake.
  virtual PeerCertificate Certificate() = 0;

  // Reading, of which one is under way at a time: a head, then its body, if it has one.
  virtual void ReadHead(ReadHandler done) = 0;
  // REQUIRES: both: ReadHead is done.
  virtual RequestHead Head() const = 0;
  virtual void ReadBody(int64_t most, ReadHandler done) = 0;
  // True where a head was read, and not all of its body.
  virtual bool HasUnreadBody() const = 0;
  // All of the body; the request is over.
  virtual std::string TakeBody() = 0;
  // Reads a little of what comes next, with which the next head begins.
  virtual void ReadAhead(DoneHandler done) = 0;
  virtual bool HasReadAhead() const = 0;
  virtual bool IsReading() const = 0;

  // Writes, one text at a time.
  virtual void Write(std::string bytes, DoneHandler done) = 0;

  // Calls `due` after that time, unless Arm or Disarm is called, or it is closed, before.
  virtual void Arm(absl::Duration time, Handler due) = 0;
  virtual void Disarm() = 0;

  // Tells the client that nothing comes any more, and closes once it has closed too: the last bytes
  // of an answer would be lost if what the client still sends came to a closed socket.
  virtual void SayGoodbye() = 0;
  virtual void Close() = 0;
  virtual bool is_closed() const = 0;
};

}  // namespace latentd::server::http
