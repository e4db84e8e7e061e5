#include "server/http/caller_check.h"

#include <vector>

#include "core/base/errors/status_macros.h"
#include "server/generation/caller.h"
#include "server/generation/shown_key.h"

namespace latentd::server::http {
namespace {

absl::StatusOr<std::string> CallerByKey(const generation::CallEnvironment& environment,
                                        const Request& request) {
  return generation::CheckKey(environment, generation::Transport::kHttp,
                              {request.Find("authorization"), request.Find("x-api-key")});
}

std::string CallerBy(const PeerCertificate& certificate) {
  return generation::CallerOf({certificate.names.begin(), certificate.names.end()});
}

}  // namespace

absl::StatusOr<std::string> CheckCaller(const Service& service, const Route* route,
                                        const Request& request, absl::string_view peer,
                                        const PeerCertificate& certificate) {
  if (route != nullptr && route->open_to_all) return generation::HostOf(peer);
  if (service.clients != nullptr) {
    RETURN_IF_ERROR(service.clients->Check(certificate.certificate, certificate.chain));
  }
  if (service.environment.caller_of_key != nullptr) {
    return CallerByKey(service.environment, request);
  }
  return service.clients != nullptr ? CallerBy(certificate) : generation::HostOf(peer);
}

}  // namespace latentd::server::http
