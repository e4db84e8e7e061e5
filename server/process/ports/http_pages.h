// A port of plain HTTP with a few pages of text, for Prometheus and for probes.
//
// A page is found by its path, whatever query follows it; GET and HEAD are answered, other methods
// with 405, other paths with 404. Text is UTF-8 (core/base/text/utf8.h), and compressed for clients
// that take gzip. A connection is closed after each answer, which says so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct mg_context;
struct mg_connection;

namespace latentd::server::process {

struct Page {
  struct Text {
    bool is_good = true;  // 200, else 503
    std::string text;
    const char* type = "text/plain; charset=utf-8";
  };

  std::string path;
  // Called for each request, on several threads at a time, which have small stacks (100 KiB). For
  // std::bad_alloc the answer is 503.
  std::function<Text()> make;
};

// Listens from Listen until it is destroyed, which waits for requests in flight and takes up to two
// seconds even without: the library looks that often. Thread-safe.
class HttpPages {
 public:
  // `listen` is HOST:PORT. FAILED_PRECONDITION says why it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpPages>> Listen(const std::string& listen,
                                                           std::vector<Page> pages);

  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

 private:
  struct Stop {
    void operator()(mg_context* web_server) const;
  };

  explicit HttpPages(std::vector<Page> pages) : pages_(std::move(pages)) {}

  // The status code, for the library.
  static int Handle(mg_connection* connection, void* pages);
  int Answer(mg_connection& connection) const;

  const std::vector<Page> pages_;
  std::string address_;
  std::unique_ptr<mg_context, Stop> web_server_;  // last: its threads use what is above
};

}  // namespace latentd::server::process
