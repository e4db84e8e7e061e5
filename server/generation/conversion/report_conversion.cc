#include "server/generation/conversion/report_conversion.h"

#include "server/generation/conversion/basic_conversion.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

v1::GraphState StateOf(engine::GraphState state) {
  switch (state) {
    case engine::GraphState::kCold:
      return v1::GRAPH_STATE_COLD;
    case engine::GraphState::kCompiling:
      return v1::GRAPH_STATE_COMPILING;
    case engine::GraphState::kCompiled:
      return v1::GRAPH_STATE_COMPILED;
    case engine::GraphState::kLoading:
      return v1::GRAPH_STATE_LOADING;
    case engine::GraphState::kReady:
      return v1::GRAPH_STATE_READY;
    case engine::GraphState::kFailed:
      return v1::GRAPH_STATE_FAILED;
  }
  return v1::GRAPH_STATE_UNSPECIFIED;
}

v1::ServerState StateOf(engine::State state) {
  switch (state) {
    case engine::State::kLoading:
      return v1::SERVER_STATE_LOADING;
    case engine::State::kWarming:
      return v1::SERVER_STATE_WARMING;
    case engine::State::kReady:
      return v1::SERVER_STATE_READY;
    case engine::State::kDegraded:
      return v1::SERVER_STATE_DEGRADED;
    case engine::State::kDraining:
      return v1::SERVER_STATE_DRAINING;
    case engine::State::kFailed:
      return v1::SERVER_STATE_FAILED;
  }
  return v1::SERVER_STATE_UNSPECIFIED;
}

void SetKey(const engine::GraphEntry& entry, v1::Graph& proto) {
  for (const engine::KeyField& field : entry.key) {
    v1::KeyField& added = *proto.add_key();
    added.set_name(field.name);
    added.set_value(field.value);
  }
}

void SetCost(const engine::GraphEntry& entry, v1::Graph& proto) {
  proto.set_device_bytes(entry.device_bytes);
  proto.set_arena_bytes(entry.arena_bytes);
  proto.set_memory_bytes(entry.memory_bytes);
  proto.set_disk_bytes(entry.disk_bytes);
  *proto.mutable_compile_time() = ToProto(entry.compile_time);
  *proto.mutable_load_time() = ToProto(entry.load_time);
}

v1::DeviceMemory DeviceOf(const engine::DeviceMemoryReport& report) {
  v1::DeviceMemory proto;
  proto.set_name(report.name);
  proto.set_total_bytes(report.total_bytes);
  proto.set_free_bytes(report.free_bytes);
  proto.set_held_bytes(report.held_bytes);
  proto.set_idle_bytes(report.idle_bytes);
  proto.set_other_bytes(report.other_bytes);
  return proto;
}

}  // namespace

v1::Graph ToProto(const engine::GraphEntry& entry) {
  v1::Graph proto;
  proto.set_id(entry.id);
  proto.set_model(entry.model);
  proto.set_component(entry.component);
  proto.set_part(entry.part);
  if (entry.bucket != pipeline::Size()) *proto.mutable_bucket() = ToBucketSize(entry.bucket);
  proto.set_rows(entry.rows);
  proto.set_fallback(entry.fallback);
  proto.mutable_users()->Add(entry.users.begin(), entry.users.end());
  proto.set_state(StateOf(entry.state));
  proto.set_reason(entry.reason);
  SetKey(entry, proto);
  SetCost(entry, proto);
  proto.set_hits(entry.hits);
  if (entry.last_use != absl::InfinitePast()) *proto.mutable_last_use() = ToProto(entry.last_use);
  proto.set_pinned(entry.pinned);
  proto.set_in_use(entry.in_use);
  proto.set_precision(entry.precision);
  return proto;
}

v1::MemoryPrediction ToProto(const engine::MemoryPrediction& prediction) {
  v1::MemoryPrediction proto;
  proto.set_weights_bytes(prediction.weights);
  proto.set_arena_bytes(prediction.arena);
  proto.set_state_bytes(prediction.state);
  proto.set_executables_bytes(prediction.executables);
  proto.set_total_bytes(prediction.total());
  return proto;
}

v1::MemoryReport ToProto(const engine::MemoryReport& report) {
  v1::MemoryReport proto;
  for (const engine::ComponentMemory& weights : report.weights) {
    v1::ComponentMemory& added = *proto.add_weights();
    added.set_model(weights.model);
    added.set_component(weights.component);
    added.set_bytes(weights.bytes);
    added.set_shared_bytes(weights.shared_bytes);
    added.mutable_users()->Add(weights.users.begin(), weights.users.end());
  }
  proto.set_weights_bytes(report.weight_bytes);
  proto.set_mapped_bytes(report.mapped_bytes);
  proto.set_kept_tensors_bytes(report.kept_tensor_bytes);
  proto.set_arena_bytes(report.arena_bytes);
  proto.set_state_bytes(report.state_bytes);
  proto.set_results_bytes(report.result_bytes);
  proto.set_executables_bytes(report.executable_bytes);
  proto.set_artifacts_bytes(report.artifact_bytes);
  proto.set_graph_definitions_bytes(report.definition_bytes);
  proto.set_waiting_images_bytes(report.waiting_image_bytes);
  proto.set_allocator_bytes(report.allocator_bytes);
  proto.set_allocator_free_bytes(report.allocator_free_bytes);
  proto.set_resident_bytes(report.resident_bytes);
  proto.set_peak_resident_bytes(report.peak_resident_bytes);
  proto.set_budget_bytes(report.budget_bytes);
  proto.set_available_bytes(report.available_bytes);
  *proto.mutable_predicted() = ToProto(report.predicted);
  for (const engine::DeviceMemoryReport& device : report.devices) {
    *proto.add_devices() = DeviceOf(device);
  }
  proto.set_pinned_bytes(report.pinned_bytes);
  proto.set_host_available_bytes(report.host_available_bytes);
  return proto;
}

v1::ClientMemory ToProto(const process::ClientBytes& bytes) {
  v1::ClientMemory proto;
  proto.set_kind(std::string(bytes.kind));
  proto.set_bytes(bytes.held);
  proto.set_limit_bytes(bytes.most);
  return proto;
}

v1::ServerStatus ToProto(const engine::ServerStatus& status, const std::string& version) {
  v1::ServerStatus proto;
  proto.set_state(StateOf(status.state));
  proto.set_reason(status.reason);
  proto.set_graphs_done(status.graphs_done);
  proto.set_graphs_total(status.graphs_total);
  for (const engine::ServerStatus::Bucket& bucket : status.buckets) {
    v1::BucketStatus& added = *proto.add_buckets();
    *added.mutable_size() = ToBucketSize(bucket.size);
    added.set_ready(bucket.ready);
    added.set_reason(bucket.reason);
    added.set_model(bucket.model);
  }
  for (const engine::ServerStatus::Device& device : status.devices) {
    v1::DeviceStatus& added = *proto.add_devices();
    added.set_name(device.name);
    added.set_state(StateOf(device.state));
    added.set_reason(device.reason);
    added.set_fault(device.fault);
  }
  *proto.mutable_started() = ToProto(status.started);
  if (status.ready != absl::InfiniteFuture()) *proto.mutable_ready() = ToProto(status.ready);
  proto.set_version(version);
  return proto;
}

}  // namespace latentd::server::generation
