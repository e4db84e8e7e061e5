#include "server/admin/graph_conversion.h"

#include "core/base/errors/error_details.h"
#include "server/calls/grpc_status.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

// In the words of a call's status, cut as those are.
v1::Error ToError(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(calls::ToGrpcStatus(status).error_message());
  error.set_reason(GetReason(status));
  return error;
}

}  // namespace

v1::GraphResult ToProto(const engine::EntryResult& result) {
  v1::GraphResult proto;
  proto.set_id(result.id);
  proto.set_model(result.model);
  proto.set_component(result.component);
  if (result.bucket != pipeline::Size())
    *proto.mutable_bucket() = generation::ToBucketSize(result.bucket);
  if (!result.status.ok()) *proto.mutable_error() = ToError(result.status);
  proto.set_unused(result.unused);
  return proto;
}

v1::GraphResults ToProto(const std::vector<engine::EntryResult>& results) {
  v1::GraphResults proto;
  for (const engine::EntryResult& result : results) *proto.add_results() = ToProto(result);
  return proto;
}

v1::WarmBucketsEvent ToProto(const engine::WarmProgress& progress) {
  v1::WarmBucketsEvent event;
  v1::WarmBucketsEvent::Progress& proto = *event.mutable_progress();
  *proto.mutable_result() = ToProto(progress.entry);
  proto.set_done(progress.done);
  proto.set_total(progress.total);
  proto.set_compiled(progress.compiled);
  *proto.mutable_duration() = ToProto(progress.duration);
  return event;
}

v1::WarmBucketsEvent ToProto(const engine::WarmOutcome& outcome) {
  v1::WarmBucketsEvent event;
  v1::WarmBucketsEvent::Done& proto = *event.mutable_done();
  proto.set_compiled(outcome.compiled);
  proto.set_loaded(outcome.loaded);
  proto.set_ready_before(outcome.ready_before);
  proto.set_failed(outcome.failed);
  *proto.mutable_predicted() = ToProto(outcome.predicted);
  return event;
}

engine::CacheTier FromProto(v1::CacheTier tier) {
  switch (tier) {
    case v1::CACHE_TIER_DISK:
      return engine::CacheTier::kDisk;
    case v1::CACHE_TIER_BOTH:
      return engine::CacheTier::kBoth;
    default:
      return engine::CacheTier::kMemory;
  }
}

}  // namespace latentd::server::admin
