// A graph store with what stands around it: for the store's tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/errors/error_details.h"
#include "core/compiler/graph_store.h"
#include "core/weights/weight_store.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::compiler {

inline constexpr Purpose kReadyOnly = {GetMode::kReady};
inline constexpr Purpose kLoadOnly = {GetMode::kLoad};
inline constexpr Purpose kAgain = {GetMode::kRetry, Reason::kRetry};

// State of one run of the program: gone with it, but for the directory.
class Process {
 public:
  // An empty directory: no disk cache.
  Process(backends::Backend& backend, const Clock& clock, const std::string& directory,
          GraphStore::Options options = {})
      : disk_(Open(directory, clock, registry_)),
        store_(backend, clock, registry_, disk_.get(), Warning(std::move(options))) {}

  GraphStore* operator->() { return &store_; }
  GraphStore& store() { return store_; }
  cache::DiskCache& disk() { return *disk_; }

  std::vector<std::string> warnings() const {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }
  double Count(const metrics::Family& family, const metrics::LabelValues& labels) {
    return registry_.GetCounter(family, labels).Value();
  }
  // As a scrape sees it.
  double Value(const metrics::Family& family, const metrics::LabelValues& labels) {
    store_.RefreshMetrics();
    return registry_.GetGauge(family, labels).Value();
  }
  double Lookups(const std::string& result) {
    return Count(metrics::kGraphCacheLookups, {"base", "part", result});
  }
  uint64_t Durations(const std::string& source) {
    return registry_.GetHistogram(metrics::kGraphReadySeconds, {"base", "part", source})
        .Collect()
        .histogram.sample_count;
  }
  GraphStatus Only() {
    const std::vector<GraphStatus> list = store_.List();
    EXPECT_EQ(list.size(), 1u);
    return list.empty() ? GraphStatus{} : list.front();
  }

 private:
  static std::unique_ptr<cache::DiskCache> Open(const std::string& directory, const Clock& clock,
                                                metrics::Registry& registry) {
    if (directory.empty()) return nullptr;
    auto disk = cache::DiskCache::Open({.directory = directory}, clock, registry);
    EXPECT_OK(disk);
    return *std::move(disk);
  }
  GraphStore::Options Warning(GraphStore::Options options) {
    options.on_warning = [this](absl::string_view what) {
      absl::MutexLock lock(&mutex_);
      warnings_.emplace_back(what);
    };
    return options;
  }

  mutable absl::Mutex mutex_;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  metrics::Registry registry_;
  std::unique_ptr<cache::DiskCache> disk_;
  GraphStore store_;
};

class GraphStoreFixture : public ::testing::Test {
 protected:
  // Weights with "part/w" of `size` elements, all `value`.
  std::shared_ptr<const weights::WeightSet> Weights(int64_t size, float value) {
    device::Buffer data = device::Buffer::Allocate(device::DType::kF32, {size});
    for (float& element : data.as<float>()) element = value;
    auto set = std::make_shared<weights::WeightSet>(&weight_store_);
    set->Add("part", {{"w", {data, "file"}}});
    return set;
  }

  GraphSpec Wanted(graph::Graph graph, std::string user = "base") {
    return {.label = {.model = std::move(user), .component = "part"},
            .graph = std::make_shared<const graph::Graph>(std::move(graph)),
            .weights = no_weights_};
  }
  GraphSpec WantedWith(std::shared_ptr<const weights::WeightSet> weights, std::string user) {
    GraphSpec wanted = Wanted(BiasGraph(4), std::move(user));
    wanted.weights = std::move(weights);
    return wanted;
  }

  // The payload of an artifact's file, with every length right, whatever its plan says.
  static std::string Payload(graph::Graph graph, std::string plan) {
    Artifact artifact;
    artifact.label.model = "base";
    artifact.label.component = "part";
    artifact.graph = std::make_shared<const graph::Graph>(std::move(graph));
    artifact.plan.bytes = std::move(plan);
    return WritePayload(artifact);
  }
  // The same as a file for that key.
  static std::string FileOf(absl::string_view key, const std::string& payload) {
    return cache::EncodeHead(cache::Kind::kArtifact, key, payload) + payload;
  }

  testing::FakeClock clock;
  FakeBackend backend;
  testing::TemporaryDirectory directory;

 private:
  weights::WeightStore weight_store_{backend};
  const std::shared_ptr<const weights::WeightSet> no_weights_ =
      std::make_shared<const weights::WeightSet>(&weight_store_);
};

// As an operator imports a file.
inline absl::Status Import(Process& process, absl::string_view file) {
  const auto artifact = ParseArtifact(file);
  return artifact.ok() ? process->Import(*artifact) : artifact.status();
}

MATCHER_P(HasReason, reason, "has that reason") {
  *result_listener << testing::StatusOf(arg).ToString();
  return GetReason(testing::StatusOf(arg)) == reason;
}

}  // namespace latentd::compiler
