#include "core/metrics/registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_split.h"

namespace latentd::metrics {
namespace {

bool HasFreeLabel(const Family& family) {
  return std::any_of(family.labels, family.labels + family.label_count(),
                     [](const Label& label) { return label.is_free(); });
}

std::vector<absl::string_view> ListedValues(const Label& label) {
  return absl::StrSplit(label.values, ',', absl::SkipEmpty());
}

prometheus::MetricType TypeOf(const Family& family) {
  switch (family.type) {
    case Type::kGauge:
      return prometheus::MetricType::Gauge;
    case Type::kHistogram:
      return prometheus::MetricType::Histogram;
    case Type::kCounter:
      break;
  }
  return prometheus::MetricType::Counter;
}

std::vector<prometheus::ClientMetric::Label> NamedLabels(const Family& family,
                                                         const LabelValues& values) {
  std::vector<prometheus::ClientMetric::Label> labels;
  for (size_t i = 0; i < values.size(); ++i) labels.push_back({family.labels[i].name, values[i]});
  return labels;
}

}  // namespace

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
      return series
          .try_emplace(std::move(labels), std::in_place_type<Histogram>,
                       Histogram::BucketBoundaries(family.bounds.begin(), family.bounds.end()))
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

std::vector<prometheus::MetricFamily> Registry::Collect() const {
  absl::MutexLock no_change(&changes_);
  absl::MutexLock lock(&mutex_);
  std::vector<prometheus::MetricFamily> all;
  for (const Family* family : kFamilies) {
    const auto found = series_.find(family);
    if (found == series_.end()) continue;
    prometheus::MetricFamily& collected =
        all.emplace_back(prometheus::MetricFamily{family->name, family->help, TypeOf(*family), {}});
    for (const auto& [labels, series] : found->second) {
      collected.metric.push_back(std::visit([](const auto& one) { return one.Collect(); }, series));
      collected.metric.back().label = NamedLabels(*family, labels);
    }
  }
  return all;
}

}  // namespace latentd::metrics
