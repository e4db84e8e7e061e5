// libFuzzer target: any bytes as all that a client sends on one connection over HTTP: request
// lines, headers, and bodies of a length or in chunks, one request behind the other.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/metrics/registry.h"
#include "server/http/http_metrics.h"
#include "server/http/routes/request_limits.h"
#include "server/http/wire.h"

namespace {

namespace http = ::latentd::server::http;
using Outcome = http::Wire::Outcome;

constexpr int64_t kMostBody = 1 << 10;

bool HasLineEnd(absl::string_view text) { return text.find_first_of("\r\n") != text.npos; }

// Reads requests as a connection does, and checks that each was within what was sent.
class Requests {
 public:
  Requests(std::shared_ptr<http::Wire> wire, size_t sent) : wire_(std::move(wire)), sent_(sent) {}

  void ReadNext() {
    wire_->ReadHead([this](Outcome outcome) {
      if (outcome != Outcome::kDone) return wire_->Close();
      const http::RequestHead head = wire_->Head();
      Check(head);
      // Behind a head that is not clear a body's end is not sure.
      if (!http::CheckHead(head.request, head.version).ok()) return wire_->Close();
      if (!wire_->HasUnreadBody()) return Take();
      wire_->ReadBody(kMostBody, [this](Outcome body) {
        return body == Outcome::kDone ? Take() : wire_->Close();
      });
    });
  }

 private:
  void Check(const http::RequestHead& head) {
    size_t size = head.request.method.size() + head.request.path.size() + head.request.query.size();
    for (const http::Header& header : head.request.headers) {
      if (HasLineEnd(header.first) || HasLineEnd(header.second)) std::abort();
      size += header.first.size() + header.second.size();
    }
    if (size > sent_ || HasLineEnd(head.request.path) || HasLineEnd(head.request.query)) {
      std::abort();
    }
  }

  void Take() {
    const size_t size = wire_->TakeBody().size();
    if (size > kMostBody || size > sent_) std::abort();
    ReadNext();
  }

  const std::shared_ptr<http::Wire> wire_;
  const size_t sent_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& registry = *new latentd::metrics::Registry;
  static const auto& metrics = *new http::HttpMetrics(registry);
  static auto& io = *new boost::asio::io_context;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const ssize_t sent = size > 0 ? send(ends[0], data, size, MSG_NOSIGNAL) : 0;
  shutdown(ends[0], SHUT_WR);
  Requests requests(http::Wire::Make(io, ends[1], nullptr, metrics),
                    sent > 0 ? static_cast<size_t>(sent) : 0);
  requests.ReadNext();
  io.restart();
  io.run();
  close(ends[0]);
  return 0;
}
