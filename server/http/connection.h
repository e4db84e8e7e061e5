// One connection of a client: its requests, one after the other, over TCP or TLS. No thread waits
// for it: whatever it does is a short function on its wire's thread.
//
// Header and route, host and certificate are judged before the body is read, and the body's size
// too. While a request for pictures waits or runs, one byte is being read: a client that leaves is
// seen. What a client may take, in time: 20 s for its handshake and header, for a body 10 s and a
// second for each 64 KiB, 75 s between requests, and for answers what ActiveCalls allows.
#pragma once

#include <memory>

#include "server/http/service.h"
#include "server/http/wire.h"

// Boost's, of which only this directory's .cc files see more.
namespace boost::asio {
class io_context;
class thread_pool;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace latentd::server::http {

// Owns itself while its client is there. Thread-safe.
class Connection {
 public:
  // The thread that the connection runs on, those for bodies that take long to read, and one for
  // answers that may wait for a disk.
  struct Threads {
    boost::asio::io_context& io;
    boost::asio::thread_pool& readers;
    boost::asio::thread_pool& listings;
  };

  // `descriptor` is that of a socket without blocking, which the connection closes, or this where
  // it throws std::bad_alloc; null, and it is closed, where it cannot be used. `tls`: null for
  // plain text. The others outlive the connection.
  static std::shared_ptr<Connection> Start(Service& service, Threads threads, int descriptor,
                                           std::shared_ptr<boost::asio::ssl::context> tls);
  // The same over a wire that is there.
  static std::shared_ptr<Connection> Start(Service& service, Threads threads,
                                           std::shared_ptr<Wire> wire);

  virtual ~Connection() = default;

  // Closes it once no request is being answered.
  virtual void Drain() = 0;
  // As if the client had gone.
  virtual void Close() = 0;
};

}  // namespace latentd::server::http
