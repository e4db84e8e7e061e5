#include "server/http/caller_check.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/errors/status_macros.h"
#include "server/generation/caller.h"
#include "server/generation/shown_key.h"

namespace latentd::server::http {
namespace {

absl::StatusOr<Caller> CallerByKey(const generation::CallEnvironment& environment,
                                   const Request& request) {
  ASSIGN_OR_RETURN(
      generation::KeyHolder holder,
      generation::CheckKey(environment, generation::Transport::kHttp,
                           {request.Find("authorization"), request.Find("x-api-key")}));
  return Caller{std::move(holder.caller), holder.is_operator};
}

std::string CallerBy(const PeerCertificate& certificate) {
  return generation::CallerOf({certificate.names.begin(), certificate.names.end()});
}

}  // namespace

absl::StatusOr<Caller> CheckCaller(const Service& service, const Route* route,
                                   const Request& request, absl::string_view peer,
                                   const PeerCertificate& certificate) {
  Caller stranger = {generation::HostOf(peer), service.trusts_all};
  if (route != nullptr && route->open_to_all) return stranger;
  if (service.clients != nullptr) {
    RETURN_IF_ERROR(service.clients->Check(certificate.certificate, certificate.chain));
  }
  if (service.environment.holder_of_key != nullptr) {
    return CallerByKey(service.environment, request);
  }
  if (service.clients != nullptr) return Caller{CallerBy(certificate)};
  return stranger;
}

}  // namespace latentd::server::http
