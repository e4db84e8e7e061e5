// The table of paths: what is answered at once, and what is a request for pictures.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/generation/client.h"
#include "server/http/calls/dialect.h"
#include "server/http/exchange/exchange.h"

namespace latentd::server::http {

struct Caller {
  std::string name;          // as of server/generation/caller.h
  bool is_operator = false;  // runs the server: sees more than what drawing needs
};

struct Route {
  std::string method;          // "GET", which is HEAD too; "POST"; "DELETE"
  std::string path;            // "/v1/models"; a star in it is any text: "/v1/models/*"
  bool open_to_all = false;    // without a certificate or a key, too
  bool for_operators = false;  // refused to others
  bool has_picture = false;    // its body may be as large as a request for pictures
  bool takes_time = false;     // its answer may wait for a disk
  const char* api = "other";   // as metrics name it (latentd_http_responses_total)
  // One of these.
  std::function<Answer(const Request& request, const Caller& caller)> answer = nullptr;
  std::function<std::unique_ptr<Dialect>()> dialect = nullptr;
  // Submits a request whose results are fetched by others; may take a moment.
  std::function<Answer(Request request, generation::Client client)> submit = nullptr;
};

// Immutable, thread-safe.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Found {
    const Route* route = nullptr;
    absl::Status status;  // why there is none: no such path, or none of that method
    std::string allow;    // the methods of that path
  };
  // A slash at the end of a path is of no matter.
  Found Find(absl::string_view method, absl::string_view path) const;

 private:
  const std::vector<Route> routes_;
};

// An error as the clients of a path read it: OpenAI's, AUTOMATIC1111's below /sdapi, Hugging Face's
// at /hf. Thread-safe.
Answer RefuseAt(absl::string_view path, const absl::Status& status);

}  // namespace latentd::server::http
