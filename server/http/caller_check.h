// The caller of a request over HTTP: who it is, and whether it may ask.
//
// Thread-safe: a free function without state.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/http/exchange/exchange.h"
#include "server/http/peer_certificate.h"
#include "server/http/routes/router.h"
#include "server/http/service.h"

namespace latentd::server::http {

// The caller by its key's name, else by that in its certificate, else by the host in `peer`
// (server/generation/caller.h). It runs the server where its key says so, or where the server asks
// for nothing and trusts all. UNAUTHENTICATED and PERMISSION_DENIED where the server asks for a
// key or a certificate, the route is not open to all, and the client has none that is taken.
// `route` is null where there is none: a stranger is not told which paths there are.
absl::StatusOr<Caller> CheckCaller(const Service& service, const Route* route,
                                   const Request& request, absl::string_view peer,
                                   const PeerCertificate& certificate);

}  // namespace latentd::server::http
