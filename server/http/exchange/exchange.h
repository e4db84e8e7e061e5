// A request and its answer over HTTP as plain data: what is below this knows no socket.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/http/exchange/answer_body.h"

namespace latentd::server::http {

using Header = std::pair<std::string, std::string>;

struct Request {
  // The value of the first header of that name, in whatever case; empty: there is none.
  absl::string_view Find(absl::string_view name) const {
    for (const Header& header : headers) {
      if (absl::EqualsIgnoreCase(header.first, name)) return header.second;
    }
    return "";
  }

  std::string method;  // "POST"
  std::string path;    // without query, as it was sent
  std::string query;   // behind the question mark
  std::vector<Header> headers;
  std::string body;
};

struct Answer {
  int code = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;  // beside type and length
  AnswerBody body;
  bool close = false;  // the connection is of no use behind it
};

}  // namespace latentd::server::http
