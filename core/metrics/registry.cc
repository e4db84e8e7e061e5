#include "core/metrics/registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_split.h"

namespace latentd::metrics {
namespace {

void AddTo(std::atomic<double>& value, double by) {
  double old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, old + by, std::memory_order_relaxed)) {
  }
}

bool HasFreeLabel(const Family& family) {
  return std::any_of(family.labels, family.labels + family.label_count(),
                     [](const Label& label) { return label.is_free(); });
}

std::vector<absl::string_view> ListedValues(const Label& label) {
  return absl::StrSplit(label.values, ',', absl::SkipEmpty());
}

}  // namespace

void Counter::Increment(double by) {
  assert(by >= 0);
  AddTo(value_, by);
}

void Gauge::Add(double by) { AddTo(value_, by); }

Histogram::Histogram(absl::Span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  absl::MutexLock lock(&mutex_);
  ++counts_[bucket];
  sum_ += value;
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot snapshot;
  absl::MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (uint64_t count : counts_) snapshot.cumulative.push_back(total += count);
  snapshot.sum = sum_;
  return snapshot;
}

Registry::Registry() {
  absl::MutexLock lock(&mutex_);
  MakeBoundedSeries();
}

void Registry::DeclareBuckets(absl::Span<const std::string> buckets) {
  absl::MutexLock lock(&mutex_);
  buckets_.insert(buckets.begin(), buckets.end());
  MakeBoundedSeries();
}

void Registry::MakeBoundedSeries() {
  for (const Family* family : kFamilies) {
    LabelValues labels;
    if (!HasFreeLabel(*family)) MakeSeries(*family, labels);
  }
}

void Registry::MakeSeries(const Family& family, LabelValues& labels) {
  if (labels.size() == family.label_count()) {
    Find(family, labels);
    return;
  }
  const auto make = [&](absl::string_view value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    labels.emplace_back(value);
    MakeSeries(family, labels);
    labels.pop_back();
  };
  const Label& label = family.labels[labels.size()];
  for (absl::string_view value : ListedValues(label)) make(value);
  if (!label.buckets) return;
  for (const std::string& bucket : buckets_) make(bucket);
}

bool Registry::IsValue(const Label& label, absl::string_view value) const {
  if (label.is_free() || (label.buckets && buckets_.contains(value))) return true;
  const std::vector<absl::string_view> listed = ListedValues(label);
  return std::find(listed.begin(), listed.end(), value) != listed.end();
}

Registry::Series& Registry::Find(const Family& family, LabelValues labels) {
  assert(labels.size() == family.label_count());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!IsValue(family.labels[i], labels[i])) labels[i] = kOther;
  }
  std::map<LabelValues, Series>& series = series_[&family];
  if (series.size() >= kMaxSeries && !series.contains(labels)) labels.assign(labels.size(), kOther);
  switch (family.type) {
    case Type::kGauge:
      return series.try_emplace(std::move(labels), std::in_place_type<Gauge>).first->second;
    case Type::kHistogram:
      return series.try_emplace(std::move(labels), std::in_place_type<Histogram>, family.bounds)
          .first->second;
    case Type::kCounter:
      break;
  }
  return series.try_emplace(std::move(labels), std::in_place_type<Counter>).first->second;
}

Counter& Registry::GetCounter(const Family& family, const LabelValues& labels) {
  absl::MutexLock lock(&mutex_);
  return std::get<Counter>(Find(family, labels));
}

Gauge& Registry::GetGauge(const Family& family, const LabelValues& labels) {
  absl::MutexLock lock(&mutex_);
  return std::get<Gauge>(Find(family, labels));
}

Histogram& Registry::GetHistogram(const Family& family, const LabelValues& labels) {
  absl::MutexLock lock(&mutex_);
  return std::get<Histogram>(Find(family, labels));
}

std::vector<FamilySamples> Registry::Collect() const {
  absl::MutexLock lock(&mutex_);
  std::vector<FamilySamples> all;
  for (const Family* family : kFamilies) {
    const auto found = series_.find(family);
    if (found == series_.end()) continue;
    FamilySamples& collected = all.emplace_back(FamilySamples{family, {}});
    for (const auto& [labels, series] : found->second) {
      Sample& sample = collected.samples.emplace_back(Sample{labels, 0, {}});
      if (const auto* counter = std::get_if<Counter>(&series)) sample.value = counter->value();
      if (const auto* gauge = std::get_if<Gauge>(&series)) sample.value = gauge->value();
      if (const auto* histogram = std::get_if<Histogram>(&series)) {
        sample.histogram = histogram->snapshot();
      }
    }
  }
  return all;
}

}  // namespace latentd::metrics
