#include "core/metrics/registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_split.h"
#include "core/base/text/utf8.h"
#include "core/metrics/merge.h"

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

double MergedGauge(Merge merge, const LabelValues& labels, double all, double part) {
  switch (merge) {
    case Merge::kPlaces:
      return labels.front() == kHost ? std::max(all, part) : all + part;
    case Merge::kGreatest:
      return std::max(all, part);
    case Merge::kLeast:
      return std::min(all, part);
    case Merge::kOwn:
      return all;
    case Merge::kSum:
      break;
  }
  return all + part;
}

// Merges samples of one family, so that a histogram has the same bounds.
void MergeSample(const Family& family, const LabelValues& labels,
                 const prometheus::ClientMetric& part, prometheus::ClientMetric& all) {
  all.counter.value += part.counter.value;
  all.gauge.value = MergedGauge(MergeOf(family), labels, all.gauge.value, part.gauge.value);
  all.histogram.sample_count += part.histogram.sample_count;
  all.histogram.sample_sum += part.histogram.sample_sum;
  for (size_t i = 0; i < all.histogram.bucket.size(); ++i) {
    all.histogram.bucket[i].cumulative_count += part.histogram.bucket[i].cumulative_count;
  }
}

}  // namespace

Registry::Registry(Registry* whole) : whole_(whole) {
  if (whole_ != nullptr) whole_->Add(*this);
  absl::MutexLock lock(&mutex_);
  MakeBoundedSeries();
}

Registry::~Registry() {
  if (whole_ != nullptr) whole_->Remove(*this);
}

void Registry::Add(const Registry& part) {
  absl::MutexLock lock(&parts_mutex_);
  parts_.push_back(&part);
}

void Registry::Remove(const Registry& part) {
  absl::MutexLock lock(&parts_mutex_);
  std::erase(parts_, &part);
}

void Registry::Declare(Declared what, absl::Span<const std::string> values) {
  if (whole_ != nullptr) whole_->Declare(what, values);
  absl::MutexLock lock(&mutex_);
  declared_[what].insert(values.begin(), values.end());
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
  const auto declared = declared_.find(label.declared);
  if (declared == declared_.end()) return;
  for (const std::string& value : declared->second) make(value);
}

bool Registry::IsValue(const Label& label, absl::string_view value) const {
  if (label.is_free()) return true;
  const auto declared = declared_.find(label.declared);
  if (declared != declared_.end() && declared->second.contains(value)) return true;
  const std::vector<absl::string_view> listed = ListedValues(label);
  return std::find(listed.begin(), listed.end(), value) != listed.end();
}

Registry::Series& Registry::Find(const Family& family, LabelValues labels) {
  assert(labels.size() == family.label_count());
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = IsValue(family.labels[i], labels[i]) ? ToUtf8(labels[i]) : kOther;
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

Registry::SamplesByFamily Registry::CollectOwn() const {
  absl::MutexLock no_change(&changes_);
  absl::MutexLock lock(&mutex_);
  SamplesByFamily own;
  for (const auto& [family, all] : series_) {
    Samples& samples = own[family];
    for (const auto& [labels, series] : all) {
      samples[labels] = std::visit([](const auto& one) { return one.Collect(); }, series);
    }
  }
  return own;
}

void Registry::MergeParts(SamplesByFamily& all) const {
  absl::MutexLock lock(&parts_mutex_);
  if (parts_.empty()) return;
  for (auto& [family, samples] : all) {
    if (MergeOf(*family) == Merge::kLeast) samples.clear();
  }
  for (const Registry* part : parts_) {
    for (const auto& [family, samples] : part->CollectOwn()) {
      if (MergeOf(*family) == Merge::kOwn) continue;
      if (part->retired_ && family->type == Type::kGauge) continue;
      for (const auto& [labels, sample] : samples) {
        const auto [merged, is_first] = all[family].try_emplace(labels, sample);
        if (!is_first) MergeSample(*family, labels, sample, merged->second);
      }
    }
  }
}

std::vector<prometheus::MetricFamily> Registry::Collect() const {
  SamplesByFamily samples = CollectOwn();
  MergeParts(samples);
  std::vector<prometheus::MetricFamily> all;
  for (const Family* family : kFamilies) {
    const auto found = samples.find(family);
    if (found == samples.end()) continue;
    prometheus::MetricFamily& collected =
        all.emplace_back(prometheus::MetricFamily{family->name, family->help, TypeOf(*family), {}});
    for (auto& [labels, sample] : found->second) {
      collected.metric.push_back(std::move(sample));
      collected.metric.back().label = NamedLabels(*family, labels);
    }
  }
  return all;
}

}  // namespace latentd::metrics
