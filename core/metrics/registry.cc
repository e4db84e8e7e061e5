#include "core/metrics/registry.h"

#include <algorithm>
#include <utility>

namespace latentd::metrics {
namespace {

void AddTo(std::atomic<double>& value, double by) {
  double old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, old + by, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Counter::Increment(double by) { AddTo(value_, by); }

void Gauge::Add(double by) { AddTo(value_, by); }

Histogram::Histogram(absl::Span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  absl::MutexLock lock(&mutex_);
  ++counts_[bucket];
  sum_ += value;
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot snapshot{bounds_, {}, 0};
  absl::MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (uint64_t count : counts_) snapshot.cumulative.push_back(total += count);
  snapshot.sum = sum_;
  return snapshot;
}

// One of the three, as the family's type says.
struct Registry::Series {
  explicit Series(const Family& family) : histogram(family.bounds) {}

  Counter counter;
  Gauge gauge;
  Histogram histogram;
};

Registry::Registry() = default;
Registry::~Registry() = default;

Registry::Series& Registry::Find(const Family& family, LabelValues labels) {
  absl::MutexLock lock(&mutex_);
  auto& series = series_[&family];
  if (series.size() >= kMaxSeries && !series.contains(labels)) {
    labels.assign(labels.size(), "other");
  }
  std::unique_ptr<Series>& found = series[std::move(labels)];
  if (found == nullptr) found = std::make_unique<Series>(family);
  return *found;
}

Counter& Registry::GetCounter(const Family& family, const LabelValues& labels) {
  return Find(family, labels).counter;
}

Gauge& Registry::GetGauge(const Family& family, const LabelValues& labels) {
  return Find(family, labels).gauge;
}

Histogram& Registry::GetHistogram(const Family& family, const LabelValues& labels) {
  return Find(family, labels).histogram;
}

std::vector<FamilySamples> Registry::Collect() const {
  absl::MutexLock lock(&mutex_);
  std::vector<FamilySamples> all;
  for (const Family* family : kFamilies) {
    const auto found = series_.find(family);
    if (found == series_.end()) continue;
    FamilySamples samples{family, {}};
    for (const auto& [labels, series] : found->second) {
      Sample sample{labels, 0, {}};
      if (family->type == Type::kCounter) sample.value = series->counter.value();
      if (family->type == Type::kGauge) sample.value = series->gauge.value();
      if (family->type == Type::kHistogram) sample.histogram = series->histogram.snapshot();
      samples.samples.push_back(std::move(sample));
    }
    all.push_back(std::move(samples));
  }
  return all;
}

}  // namespace latentd::metrics
