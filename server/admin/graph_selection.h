// Selects the graphs that a request of GraphCache is about, and checks its form.
//
// Thread-safe: free functions without state.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/statusor.h"
#include "core/base/errors/status_macros.h"
#include "core/engine/api/graph_admin.h"
#include "latent/v1/graph_cache.pb.h"
#include "server/calls/request_parser.h"

namespace latentd::server::admin {

// `selector` is the one of `request`. INVALID_ARGUMENT with a violation for every field that is
// wrong, in `request` too; a selector that selects nothing is wrong.
absl::StatusOr<engine::GraphSelector> ToSelector(const google::protobuf::Message& request,
                                                 const latent::v1::GraphSelector& selector);

// Parses `bytes` into `request`, whose field `selector` it returns.
template <typename Request>
absl::StatusOr<engine::GraphSelector> ReadSelector(const grpc::ByteBuffer& bytes,
                                                   Request& request) {
  RETURN_IF_ERROR(calls::ParseRequest(bytes, request));
  return ToSelector(request, request.selector());
}

// The id of one graph, or an unambiguous beginning of it. INVALID_ARGUMENT names the field `id`.
absl::StatusOr<std::string> ReadId(const std::string& id);

}  // namespace latentd::server::admin
