#include "server/process/logs/startup_log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/metrics/families.h"

namespace latentd::server::process {
namespace {

namespace v1 = ::latent::v1;
using engine::ServerStatus;
using engine::State;

bool IsServing(State state) { return state == State::kReady || state == State::kDegraded; }

int64_t ReadyBuckets(const ServerStatus& status) {
  return std::count_if(status.buckets.begin(), status.buckets.end(),
                       [](const ServerStatus::Bucket& bucket) { return bucket.ready; });
}

int TenthsDone(const ServerStatus& status) {
  return status.graphs_total > 0 ? 10 * status.graphs_done / status.graphs_total : 0;
}

// How often graphs were compiled, and how often loaded.
LogFields CountGraphs(const metrics::Registry& registry) {
  double compiled = 0;
  uint64_t loaded = 0;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    for (const prometheus::ClientMetric& series : family.metric) {
      if (family.name == metrics::kGraphCompilations.name) compiled += series.counter.value;
      if (family.name == metrics::kGraphReadySeconds.name &&
          absl::EndsWith(series.label.back().value, "_load")) {
        loaded += series.histogram.sample_count;
      }
    }
  }
  return {{"compiled", static_cast<int64_t>(compiled)}, {"loaded", loaded}};
}

}  // namespace

StartupLog::StartupLog(const Clock& clock, const metrics::Registry& registry, Write write)
    : clock_(clock), registry_(registry), write_(std::move(write)), start_(clock.Monotonic()) {}

void StartupLog::Note(const ServerStatus& status) {
  if (status.state == State::kWarming) NoteProgress(status);
  if (IsServing(status.state) && status.state != last_.state) NoteServing(status);
  if (status.shared_steps.has_value() && !last_.shared_steps.has_value()) NoteSharedSteps(status);
  if (status.device_fault.empty()) NoteLostDevices(status);
  last_ = status;
}

void StartupLog::NoteSharedSteps(const ServerStatus& status) {
  if (status.shared_steps->total == 0) return;
  write_(v1::INFO, "row counts above 2",
         {{"ready", absl::StrCat(status.shared_steps->ready, "/", status.shared_steps->total)},
          {"seconds", SecondsSinceStart()}});
}

void StartupLog::NoteLostDevices(const ServerStatus& status) {
  for (size_t i = 0; i < status.devices.size(); ++i) {
    const ServerStatus::Device& device = status.devices[i];
    const bool was_lost = i < last_.devices.size() && !last_.devices[i].fault.empty();
    if (device.fault.empty() || was_lost) continue;
    write_(v1::ERROR,
           "a device has failed and works no more in this process; the others go on without it",
           {{"device", device.name}, {"fault", device.fault}});
  }
}

double StartupLog::SecondsSinceStart() const {
  return absl::ToInt64Milliseconds(clock_.Monotonic() - start_) / 1000.0;
}

void StartupLog::NoteProgress(const ServerStatus& status) {
  if (status.graphs_done == last_.graphs_done && ReadyBuckets(status) == ReadyBuckets(last_)) {
    return;
  }
  LogFields fields = {{"graphs", absl::StrCat(status.graphs_done, "/", status.graphs_total)}};
  if (!status.reason.empty()) fields["last"] = status.reason;
  const bool milestone =
      TenthsDone(status) != TenthsDone(last_) || ReadyBuckets(status) != ReadyBuckets(last_);
  if (milestone && !status.buckets.empty()) {
    fields["buckets"] = absl::StrCat(ReadyBuckets(status), "/", status.buckets.size());
  }
  write_(milestone ? v1::INFO : v1::DEBUG, "warming", fields);
}

void StartupLog::NoteServing(const ServerStatus& status) {
  for (const ServerStatus::Bucket& bucket : status.buckets) {
    if (bucket.ready) continue;
    write_(v1::WARNING, "cold bucket",
           {{"bucket", absl::StrCat(bucket.size.width, "x", bucket.size.height)},
            {"reason", bucket.reason}});
  }
  LogFields fields = {{"seconds", SecondsSinceStart()}};
  fields.update(CountGraphs(registry_));
  if (!status.reason.empty()) fields["reason"] = status.reason;
  if (status.state == State::kReady) return write_(v1::INFO, "ready", fields);
  write_(v1::WARNING, "degraded", fields);
}

}  // namespace latentd::server::process
