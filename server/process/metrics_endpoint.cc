#include "server/process/metrics_endpoint.h"

#include <CivetServer.h>
#include <prometheus/metric_family.h>

#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "server/process/health_pages.h"
#include "server/process/listen_address.h"
#include "server/process/log.h"
#include "server/process/process_metrics.h"

namespace latentd::server::process {
namespace {

// One scrape or probe is one short request: two Prometheus servers and two who probe do not wait
// for each other, and whoever connects and sends nothing is gone before the next scrape.
constexpr int kThreads = 4;
constexpr int kRequestTimeoutMs = 5000;

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(engine::Engine& engine) : engine_(engine) {}

  // On a thread of its own: those of the library have stacks of 100 KiB.
  std::vector<prometheus::MetricFamily> Collect() const override {
    try {
      return std::async(std::launch::async, [this] { return CollectNow(); }).get();
    } catch (const std::exception&) {  // there may be no more threads, or no memory
      return {};
    }
  }

 private:
  std::vector<prometheus::MetricFamily> CollectNow() const {
    engine_.RefreshMetrics();
    std::vector<prometheus::MetricFamily> families = engine_.metrics().Collect();
    for (prometheus::MetricFamily& family : families) {
      if (family.name != metrics::kLogLinesDropped.name) continue;
      family.metric.front().counter.value = static_cast<double>(DroppedLogLines());
    }
    for (prometheus::MetricFamily& family : CollectProcessMetrics()) {
      families.push_back(std::move(family));
    }
    return families;
  }

  engine::Engine& engine_;
};

// The web server that this thread has begun to start: the exposer shows its own to nobody, and
// starts it on the thread that makes the exposer.
thread_local const mg_context* begun = nullptr;

// Null where it cannot be listened on, for a reason that the library does not know.
std::unique_ptr<prometheus::Exposer> Listen(const std::string& listen, const Health& health) {
  CivetCallbacks callbacks;
  callbacks.init_context = [](const mg_context* web_server) { begun = web_server; };
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", listen, "num_threads", absl::StrCat(kThreads),
                                 "request_timeout_ms", absl::StrCat(kRequestTimeoutMs)},
        &callbacks);
    AddHealthPages(const_cast<mg_context&>(*begun), health);
    return exposer;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(const std::string& listen,
                                                                        engine::Engine& engine,
                                                                        const Health& health) {
  // To the library, this would be two addresses.
  if (listen.find(',') != listen.npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", listen, ": HOST:PORT is needed"));
  }
  std::unique_ptr<prometheus::Exposer> exposer = Listen(listen, health);
  if (exposer == nullptr) return ExplainListenFailure(listen);
  auto collector = std::make_shared<Collector>(engine);
  exposer->RegisterCollectable(collector);
  const int port = exposer->GetListeningPorts().front();
  return absl::WrapUnique(
      new MetricsEndpoint(absl::StrCat(listen.substr(0, listen.rfind(':') + 1), port),
                          std::move(collector), std::move(exposer)));
}

MetricsEndpoint::MetricsEndpoint(std::string address,
                                 std::shared_ptr<prometheus::Collectable> collectable,
                                 std::unique_ptr<prometheus::Exposer> exposer)
    : address_(std::move(address)),
      collectable_(std::move(collectable)),
      exposer_(std::move(exposer)) {}

}  // namespace latentd::server::process
