#include "server/process/metrics_endpoint.h"

#include <prometheus/metric_family.h>

#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "server/process/listen_address.h"
#include "server/process/process_metrics.h"

namespace latentd::server::process {
namespace {

// One scrape is one short request: two Prometheus servers do not wait for each other, and whoever
// connects and sends nothing is gone before the next scrape.
constexpr int kThreads = 2;
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
    for (prometheus::MetricFamily& family : CollectProcessMetrics()) {
      families.push_back(std::move(family));
    }
    return families;
  }

  engine::Engine& engine_;
};

// Null where it cannot be listened on, for a reason that the library does not know.
std::unique_ptr<prometheus::Exposer> Listen(const std::string& listen) {
  try {
    return std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", listen, "num_threads", absl::StrCat(kThreads),
                                 "request_timeout_ms", absl::StrCat(kRequestTimeoutMs)});
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(const std::string& listen,
                                                                        engine::Engine& engine) {
  // To the library, this would be two addresses.
  if (listen.find(',') != listen.npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", listen, ": HOST:PORT is needed"));
  }
  std::unique_ptr<prometheus::Exposer> exposer = Listen(listen);
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
