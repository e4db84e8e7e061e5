#include "server/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/host_port.h"
#include "core/base/threads/threads.h"
#include "server/http/connection.h"
#include "server/http/operation_memory.h"
#include "server/http/routes/routes.h"
#include "server/http/service.h"
#include "server/http/tls_contexts.h"
#include "server/process/ports/connection_limit.h"
#include "server/process/ports/listen_address.h"

namespace latentd::server::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr int kThreads = 2, kReaders = 2, kListings = 1;
constexpr int kAcceptedAtOnce = 64;
// Bodies of so many requests for pictures are received at a time, whatever else is in them.
constexpr int64_t kBodies = 8;
constexpr int64_t kBesideRequest = 512 << 10;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr absl::Duration kCloseTime = absl::Seconds(5);

absl::StatusOr<Tcp::endpoint> EndpointOf(asio::io_context& io, const std::string& listen) {
  Error error;
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(latentd::HostOf(listen), listen.substr(listen.rfind(':') + 1),
                                      Tcp::resolver::passive, error);
  if (error || found.empty()) return process::ExplainListenFailure(listen);
  return found.begin()->endpoint();
}

// Clients that may ask a loopback address without more are taken for those who run the server, but
// for pages of other origins.
bool TrustsAll(const HttpServer::Options& options, const generation::CallEnvironment& environment) {
  const bool asks_clients = options.tls != nullptr && options.tls->clients() != nullptr;
  const bool asks_keys = environment.holder_of_key != nullptr;
  return IsLoopback(options.listen) && !asks_clients && !asks_keys && options.cors_origins.empty();
}

RouteOptions RouteOptionsOf(const HttpServer::Options& options) {
  return {.version = options.version,
          .defaults = options.defaults,
          .has_page = options.has_page,
          .client_memory = options.client_memory};
}

}  // namespace

class HttpServer::Port {
 public:
  Port(const Options& options, generation::CallEnvironment environment,
       const process::Health& health, VideoJobs& videos)
      : videos_(videos),
        service_{
            .environment = environment,
            .metrics = HttpMetrics(environment.engine.metrics()),
            .router = Router(MakeRoutes(environment.engine, health, running_,
                                        VideoPaths(environment, videos_), RouteOptionsOf(options))),
            .running = running_,
            .max_request_bytes = options.max_request_bytes,
            .clients = options.tls == nullptr ? nullptr : options.tls->clients(),
            .loopback_only = IsLoopback(options.listen),
            .trusts_all = TrustsAll(options, environment),
            .cors_origins = options.cors_origins,
            .bodies = BodyBudget(kBodies * (options.max_request_bytes + kBesideRequest))},
        readers_(kReaders),
        listings_(kListings),
        acceptor_(ios_.front()),
        pause_(ios_.front()),
        sweep_(ios_.front()),
        sweep_pause_(absl::ToChronoMilliseconds(options.sweep_pause)) {
    if (options.tls != nullptr) tls_.emplace(*options.tls);
  }

  absl::Status Open(const std::string& listen) {
    ASSIGN_OR_RETURN(const Tcp::endpoint endpoint, EndpointOf(ios_.front(), listen));
    Error error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor_.native_non_blocking(true, error);
    if (error) return process::ExplainListenFailure(listen);
    port_ = acceptor_.local_endpoint(error).port();
    for (asio::io_context& io : ios_) {
      work_.emplace_back(io.get_executor());
      threads_.push_back(StartThread(absl::StrCat("http-", threads_.size()), [&io] { io.run(); }));
    }
    asio::post(ios_.front(), [this] {
      Wait();
      SweepLater();
    });
    return absl::OkStatus();
  }

  int port() const { return port_; }

  void BeginDrain() {
    service_.draining = true;
    for (const auto& connection : Alive()) connection->Drain();
  }

  void Close() {
    if (threads_.empty()) return;
    BeginDrain();
    StopAccepting();
    for (const auto& connection : Alive()) connection->Close();
    WaitUntilGone();
    readers_.join();
    listings_.join();
    videos_.EndAll();
    for (asio::io_context& io : ios_) io.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    // Calls that the engine has not ended by now find nothing to call.
    for (const auto& call : running_.All()) call->LeaveTransport();
  }

 private:
  // No connection comes behind it.
  void StopAccepting() {
    absl::Notification stopped;
    asio::post(ios_.front(), [&] {
      Error ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      sweep_.cancel();
      stopped.Notify();
    });
    stopped.WaitForNotification();
  }

  void Wait() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_wait(Tcp::acceptor::wait_read, memory_.Holds([this](Error error) {
      if (!error) Accept();
    }));
  }

  // Videos that no client has fetched in time go, whether any client asks for one or not.
  void SweepLater() {
    sweep_.expires_after(sweep_pause_);
    sweep_.async_wait(sweep_memory_.Holds([this](Error error) {
      if (error || !acceptor_.is_open()) return;
      CatchOutOfMemory([this] { videos_.DropOld(); }).IgnoreError();
      SweepLater();
    }));
  }

  // As many connections as --max-connections allows.
  void Accept() {
    for (int i = 0; i < kAcceptedAtOnce && acceptor_.is_open(); ++i) {
      int refused = 0;
      const int descriptor =
          process::Accept(acceptor_.native_handle(), SOCK_NONBLOCK | SOCK_CLOEXEC, refused);
      if (refused > 0) service_.metrics.CountRefused(HttpMetrics::Refusal::kLimit, refused);
      if (descriptor < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) break;
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          return WaitABit();
        }
        continue;
      }
      if (CatchOutOfMemory([&] { Take(descriptor); }).ok()) continue;
      service_.metrics.CountRefused(HttpMetrics::Refusal::kMemory);
    }
    Wait();
  }

  void WaitABit() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait(memory_.Holds([this](Error error) {
      if (!error) Wait();
    }));
  }

  // Closes it where it throws std::bad_alloc, too.
  void Take(int descriptor) {
    absl::Cleanup close_it = [descriptor] { close(descriptor); };
    std::shared_ptr<asio::ssl::context> context;
    if (tls_.has_value()) {
      context = tls_->Get();
      if (context == nullptr) {
        service_.metrics.CountRefused(HttpMetrics::Refusal::kTls);
        return;
      }
    }
    MakePlace();
    std::move(close_it).Cancel();
    const auto connection =
        Connection::Start(service_, {NextIo(), readers_, listings_}, descriptor, context);
    if (connection == nullptr) return;
    absl::MutexLock lock(&mutex_);
    connections_.push_back(connection);
  }

  // Connections take turns on the threads.
  asio::io_context& NextIo() { return ios_[connections_taken_++ % ios_.size()]; }

  // For one more connection, so that none is there which is not listed. Connections that are gone
  // leave the list whenever it has doubled.
  void MakePlace() {
    absl::MutexLock lock(&mutex_);
    if (connections_.size() < sweep_at_) return;
    std::erase_if(connections_, [](const auto& old) { return old.expired(); });
    const size_t sweep_at = std::max<size_t>(kAcceptedAtOnce, 2 * connections_.size());
    connections_.reserve(sweep_at);
    sweep_at_ = sweep_at;
  }

  std::vector<std::shared_ptr<Connection>> Alive() const {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<Connection>> alive;
    for (const auto& connection : connections_) {
      if (auto here = connection.lock()) alive.push_back(std::move(here));
    }
    return alive;
  }

  // A connection goes when its request has ended, which the engine says.
  void WaitUntilGone() const {
    const absl::Time until = absl::Now() + kCloseTime;
    while (!Alive().empty() && absl::Now() < until) absl::SleepFor(absl::Milliseconds(5));
  }

  RunningCalls running_;
  VideoJobs& videos_;
  Service service_;
  OperationMemory memory_;  // for one of acceptor_ and pause_, which wait in turns
  OperationMemory sweep_memory_;
  // One of a thread, so that Asio needs no memory to keep a connection's functions apart.
  std::array<asio::io_context, kThreads> ios_;
  asio::thread_pool readers_, listings_;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  // All up to TlsContexts belongs to the first thread.
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_, sweep_;
  const std::chrono::milliseconds sweep_pause_;
  size_t connections_taken_ = 0;
  std::optional<TlsContexts> tls_;
  int port_ = 0;
  std::vector<std::thread> threads_;
  mutable absl::Mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 0;  // there is place for as many
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(
    const Options& options, generation::CallEnvironment environment, const process::Health& health,
    VideoJobs& videos) {
  auto port = std::make_unique<Port>(options, environment, health, videos);
  RETURN_IF_ERROR(port->Open(options.listen));
  auto server = absl::WrapUnique(new HttpServer(std::move(port)));
  server->address_ =
      absl::StrCat(options.listen.substr(0, options.listen.rfind(':')), ":", server->port_->port());
  return server;
}

HttpServer::HttpServer(std::unique_ptr<Port> port) : port_(std::move(port)) {}

HttpServer::~HttpServer() { port_->Close(); }

void HttpServer::BeginDrain() { port_->BeginDrain(); }
void HttpServer::Close() { port_->Close(); }

}  // namespace latentd::server::http
