// Judgement of a request by its head, before its body is read: what it asks for, who asks, and how
// much may come. Nothing is read for a client that has no right to it.
//
// Thread-safe: a free function without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/peer_certificate.h"
#include "server/http/routes/router.h"
#include "server/http/service.h"
#include "server/http/wire.h"

namespace latentd::server::http {

struct Judgement {
  absl::Status status;        // why it is refused
  bool is_sound = false;      // the end of its body is sure
  bool is_preflight = false;  // a browser's, to be answered before any key, which it leaves out
  std::vector<Header> cors;   // for the answer, refused or not
  std::string allow;          // the methods of a path that has others
  const Route* route = nullptr;
  // Set where it is not refused, and no preflight:
  Caller caller;
  absl::Time deadline;
  int64_t most_bytes = 0;  // its body may have so many
  int64_t body_bytes = 0;  // it has so many, or may have where it does not say
};

// `peer` is as gRPC names it.
Judgement Judge(const Service& service, const RequestHead& head, absl::string_view peer,
                const PeerCertificate& certificate);

}  // namespace latentd::server::http
