#include "server/http/exchange/target.h"

#include "absl/strings/match.h"

namespace latentd::server::http {

void SetTarget(std::string target, Request& request) {
  const size_t scheme = target.find("://");
  if (scheme != std::string::npos && !absl::StartsWith(target, "/")) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string::npos ? "/" : target.substr(path);
  }
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string::npos ? "" : target.substr(question + 1);
}

}  // namespace latentd::server::http
