#include "core/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"
#include "core/metrics/merge.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::metrics {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// Empty where the family has no series.
std::vector<ClientMetric> SeriesOf(const Registry& registry, const Family& family) {
  for (MetricFamily& collected : registry.Collect()) {
    if (collected.name == family.name) return std::move(collected.metric);
  }
  return {};
}

LabelValues LabelsOf(const ClientMetric& series) {
  LabelValues labels;
  for (const ClientMetric::Label& label : series.label) labels.push_back(label.value);
  return labels;
}

std::vector<LabelValues> LabelsOf(const Registry& registry, const Family& family) {
  std::vector<LabelValues> labels;
  for (const ClientMetric& series : SeriesOf(registry, family)) labels.push_back(LabelsOf(series));
  return labels;
}

TEST(RegistryTest, ALabelThatIsNotUtf8BecomesIt) {
  Registry registry;
  Gauge& one = registry.GetGauge(kModelInfo, {"base", "sdxl", "Pipeline", "caf\xE9"});
  Gauge& other = registry.GetGauge(kModelInfo, {"base", "sdxl", "Pipeline", "caf\xE8"});
  EXPECT_NE(&one, &other);
  EXPECT_EQ(&registry.GetGauge(kModelInfo, {"base", "sdxl", "Pipeline", "caf\xE9"}), &one);
  EXPECT_THAT(LabelsOf(registry, kModelInfo),
              ElementsAre(ElementsAre("base", "sdxl", "Pipeline", "caf\\xe8"),
                          ElementsAre("base", "sdxl", "Pipeline", "caf\\xe9")));
}

TEST(RegistryTest, CountersAndGaugesKeepWhatTheyAreTold) {
  Registry registry;
  Counter& counter = registry.GetCounter(kGraphCompilations, {"base", "unet", "startup"});
  counter.Increment();
  counter.Increment(2.5);
  EXPECT_EQ(&registry.GetCounter(kGraphCompilations, {"base", "unet", "startup"}), &counter);
  EXPECT_EQ(counter.Value(), 3.5);
  EXPECT_EQ(registry.GetCounter(kGraphCompilations, {"base", "unet", "warm"}).Value(), 0);

  Gauge& gauge = registry.GetGauge(kQueueDepth, {"other"});
  gauge.Set(7);
  gauge.Decrement(9);
  EXPECT_EQ(gauge.Value(), -2);
}

TEST(RegistryTest, AHistogramCountsWhatIsAtMostEachBound) {
  Registry registry;
  Histogram& seconds = registry.GetHistogram(kQueueSeconds, {"other"});
  const absl::Span<const double> bounds = kQueueSeconds.bounds;
  for (const double bound : bounds) seconds.Observe(bound);
  seconds.Observe(bounds.back() + 1);
  const ClientMetric::Histogram histogram = SeriesOf(registry, kQueueSeconds)[0].histogram;
  ASSERT_THAT(histogram.bucket, SizeIs(bounds.size() + 1));
  for (size_t i = 0; i < bounds.size(); ++i) {
    EXPECT_EQ(histogram.bucket[i].upper_bound, bounds[i]);
    EXPECT_EQ(histogram.bucket[i].cumulative_count, i + 1);
  }
  EXPECT_EQ(histogram.bucket.back().upper_bound, std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.bucket.back().cumulative_count, bounds.size() + 1);
}

TEST(RegistryTest, ASnapshotIsOfItsTime) {
  Registry registry;
  Histogram& seconds = registry.GetHistogram(kQueueSeconds, {"other"});
  seconds.Observe(2.5);
  const std::vector<ClientMetric> before = SeriesOf(registry, kQueueSeconds);
  seconds.Observe(1e9);
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_EQ(before[0].histogram.sample_count, 1u);
  EXPECT_EQ(before[0].histogram.sample_sum, 2.5);
}

bool TakesModelsOrDevices(const Family& family) {
  return std::any_of(family.labels, family.labels + family.label_count(), [](const Label& label) {
    return label.declared == Declared::kModels || label.declared == Declared::kDevices;
  });
}

TEST(RegistryTest, BoundedSeriesAreThereFromTheStart) {
  Registry registry;
  const std::vector<MetricFamily> all = registry.Collect();
  std::vector<std::string> families;
  for (const MetricFamily& collected : all) {
    families.push_back(collected.name);
    for (const ClientMetric& series : collected.metric) {
      EXPECT_EQ(series.counter.value, 0);
      EXPECT_EQ(series.gauge.value, 0);
      EXPECT_EQ(series.histogram.sample_count, 0u);
    }
  }
  std::vector<std::string> expected;
  for (const Family* family : kFamilies) {
    const bool needs_more =
        family->labels[0].name != nullptr &&
        (family->labels[0].is_free() || family == &kBucketWarm || TakesModelsOrDevices(*family));
    if (!needs_more) expected.emplace_back(family->name);
  }
  EXPECT_EQ(families, expected);
  EXPECT_THAT(LabelsOf(registry, kGraphCacheBytes),
              ElementsAre(LabelValues{"disk"}, LabelValues{"memory"}));
  EXPECT_THAT(LabelsOf(registry, kPixels), ElementsAre(LabelValues{}));
}

TEST(RegistryTest, DeclaredBucketsAreThereAndOthersAreOther) {
  Registry registry;
  registry.GetGauge(kQueueDepth, {"256x256"}).Set(1);
  EXPECT_THAT(LabelsOf(registry, kQueueDepth), ElementsAre(LabelValues{"other"}));

  registry.Declare(Declared::kBuckets, {"256x256"});
  registry.Declare(Declared::kBuckets, {"320x192", "256x256"});
  EXPECT_THAT(LabelsOf(registry, kQueueDepth),
              ElementsAre(LabelValues{"256x256"}, LabelValues{"320x192"}, LabelValues{"other"}));
  EXPECT_THAT(LabelsOf(registry, kBucketWarm),
              ElementsAre(LabelValues{"256x256"}, LabelValues{"320x192"}));
  EXPECT_EQ(registry.GetGauge(kQueueDepth, {"other"}).Value(), 1);
  EXPECT_EQ(registry.GetGauge(kQueueDepth, {"256x256"}).Value(), 0);
  EXPECT_EQ(&registry.GetGauge(kQueueDepth, {"8x8"}), &registry.GetGauge(kQueueDepth, {"other"}));
}

TEST(RegistryTest, DeclaredModelsAreThereAndOthersAreOther) {
  Registry registry;
  EXPECT_THAT(LabelsOf(registry, kSteps), IsEmpty());
  registry.Declare(Declared::kModels, {"base", "refiner"});
  registry.Declare(Declared::kBuckets, {"64x64"});
  EXPECT_THAT(LabelsOf(registry, kSteps), ElementsAre(LabelValues{"base"}, LabelValues{"refiner"}));
  EXPECT_THAT(LabelsOf(registry, kGraphCompilations), SizeIs(2 * 9 * 4));
  EXPECT_EQ(&registry.GetCounter(kSteps, {"anime"}), &registry.GetCounter(kSteps, {"64x64"}));
  EXPECT_THAT(LabelsOf(registry, kSteps), Contains(LabelValues{"other"}));
}

TEST(RegistryTest, AValueThatALabelCannotHaveIsOther) {
  Registry registry;
  registry.Declare(Declared::kModels, {"base"});
  registry.GetCounter(kGraphCompilations, {"base", "unet", "whim"}).Increment();
  registry.GetCounter(kGraphCompilations, {"base", "unet", "caprice"}).Increment();
  EXPECT_EQ(registry.GetCounter(kGraphCompilations, {"base", "unet", "other"}).Value(), 2);
  EXPECT_THAT(LabelsOf(registry, kGraphCompilations), SizeIs(9 * 4 + 1));
}

TEST(RegistryTest, FreeLabelsTakeAnythingUpToALimit) {
  Registry registry;
  EXPECT_THAT(LabelsOf(registry, kModelInfo), IsEmpty());
  registry.GetGauge(kModelInfo, {"base", "sdxl", "Pipeline", "cpu"}).Set(1);
  EXPECT_THAT(LabelsOf(registry, kModelInfo),
              ElementsAre(LabelValues{"base", "sdxl", "Pipeline", "cpu"}));
  for (size_t i = 0; i < 2 * kMaxSeries; ++i) {
    registry.GetGauge(kModelInfo, {absl::StrCat(i), "", "", ""}).Increment();
  }
  EXPECT_THAT(LabelsOf(registry, kModelInfo), SizeIs(kMaxSeries + 1));
  EXPECT_THAT(LabelsOf(registry, kModelInfo),
              Contains(LabelValues{"other", "other", "other", "other"}));
  EXPECT_EQ(registry.GetGauge(kModelInfo, {"0", "", "", ""}).Value(), 1);
  EXPECT_EQ(registry.GetGauge(kModelInfo, {"other", "other", "other", "other"}).Value(),
            kMaxSeries + 1);
}

// 64 is the most that a server takes.
TEST(RegistryTest, AsManyBucketsAsThereMayBeAndTwoModelsAreToldApart) {
  Registry registry;
  std::vector<std::string> buckets;
  for (int i = 1; i <= 64; ++i) buckets.push_back(absl::StrCat(8 * i, "x64"));
  registry.Declare(Declared::kModels, {"base", "refiner"});
  registry.Declare(Declared::kBuckets, buckets);
  EXPECT_THAT(LabelsOf(registry, kStageSeconds), SizeIs(6 * 2 * 65));
}

TEST(RegistryTest, ManyBucketsDoNotMakeMoreSeriesThanTheLimit) {
  Registry registry;
  std::vector<std::string> buckets;
  for (size_t i = 0; i < kMaxSeries; ++i) buckets.push_back(absl::StrCat(8 * i, "x64"));
  registry.Declare(Declared::kBuckets, buckets);
  for (const MetricFamily& collected : registry.Collect()) {
    EXPECT_LE(collected.metric.size(), kMaxSeries + 1) << collected.name;
  }
}

TEST(RegistryTest, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4, kRounds = 2000;
  Registry registry;
  registry.Declare(Declared::kModels, {"base"});
  registry.Declare(Declared::kBuckets, {"256x256"});
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        registry.GetCounter(kSteps, {"base"}).Increment();
        registry.GetGauge(kGraphCompilesInProgress).Increment(round % 2 == 0 ? 1 : -1);
        registry.GetHistogram(kStepSeconds, {"base", "256x256"}).Observe(0.5);
        registry.GetGauge(kModelInfo, {absl::StrCat(round % 5), "", "", ""}).Set(1);
      }
    });
  }
  std::thread scraper([&] {
    double last = 0;
    for (int round = 0; round < 50; ++round) {
      for (const ClientMetric& series : SeriesOf(registry, kStepSeconds)) {
        if (LabelsOf(series) != LabelValues{"base", "256x256"}) continue;
        const ClientMetric::Histogram& seconds = series.histogram;
        EXPECT_EQ(seconds.sample_sum, 0.5 * static_cast<double>(seconds.sample_count));
        EXPECT_GE(seconds.sample_sum, last);
        last = seconds.sample_sum;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  scraper.join();
  EXPECT_EQ(registry.GetCounter(kSteps, {"base"}).Value(), kThreads * kRounds);
  EXPECT_EQ(registry.GetGauge(kGraphCompilesInProgress).Value(), 0);
  EXPECT_EQ(
      registry.GetHistogram(kStepSeconds, {"base", "256x256"}).Collect().histogram.sample_count,
      kThreads * kRounds);
  EXPECT_THAT(LabelsOf(registry, kModelInfo), SizeIs(5));
}

// https://prometheus.io/docs/practices/naming/, as far as a program can tell.
TEST(FamiliesTest, NamesFollowPrometheusRules) {
  std::set<std::string> names;
  for (const Family* family : kFamilies) {
    const std::string name = family->name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(name, MatchesRegex("latentd_[a-z][a-z_]*[a-z]"));
    EXPECT_THAT(name, Not(HasSubstr("__")));
    EXPECT_THAT(name,
                Not(MatchesRegex(".*_(count|sum|bucket|ms|millis|milliseconds|mib|percent)")));
    EXPECT_EQ(absl::EndsWith(name, "_total"), family->type == Type::kCounter) << name;
    // The unit of a histogram ends its name: seconds, rows, a ratio.
    if (family->type == Type::kHistogram)
      EXPECT_THAT(name, MatchesRegex(".*_(seconds|rows|ratio)"));
    EXPECT_THAT(family->help, MatchesRegex("[A-Z0-9][^\n\\]*\\.")) << name;
    for (size_t i = 0; i < family->label_count(); ++i) {
      EXPECT_THAT(family->labels[i].name, MatchesRegex("[a-z][a-z_]*")) << name;
      EXPECT_THAT(std::string(family->labels[i].name),
                  Not(AnyOf("le", "quantile", "job", "instance")))
          << name;
    }
  }
}

TEST(FamiliesTest, AllThatAreDeclaredAreListed) {
  ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadFile(::latentd::testing::SourcePath("core/metrics/families.h"), 1 << 20));
  const std::vector<std::string> parts = absl::StrSplit(text, "inline constexpr Family k");
  EXPECT_EQ(std::size(kFamilies), parts.size() - 1);
}

// Mistakes that a typo in families.h would make.
TEST(FamiliesTest, ValuesAndBoundsAreWellFormed) {
  for (const Family* family : kFamilies) {
    for (size_t i = 0; i < family->label_count(); ++i) {
      const std::vector<std::string> values = absl::StrSplit(family->labels[i].values, ',');
      EXPECT_EQ(std::set<std::string>(values.begin(), values.end()).size(), values.size())
          << family->name;
      if (values.size() > 1) {
        EXPECT_THAT(values, Not(Contains(""))) << family->name;
      }
    }
    EXPECT_EQ(family->type == Type::kHistogram, !family->bounds.empty()) << family->name;
    EXPECT_TRUE(std::is_sorted(family->bounds.begin(), family->bounds.end())) << family->name;
  }
}

double ValueOf(const Registry& registry, const Family& family, const LabelValues& labels = {}) {
  for (const ClientMetric& series : SeriesOf(registry, family)) {
    if (LabelsOf(series) == labels) return series.counter.value + series.gauge.value;
  }
  ADD_FAILURE() << family.name << " has no such series";
  return 0;
}

TEST(RegistryPartsTest, WhatTheyCountAddsUpWithWhatTheWholeDoes) {
  Registry whole, alone;
  Registry first(&whole), second(&whole);
  for (Registry* registry : {&whole, &first, &second, &alone}) {
    registry->GetCounter(kRequestsReceived).Increment(2);
    registry->GetGauge(kQueueDepth, {kOther}).Set(3);
    registry->GetHistogram(kPredictionRatio).Observe(0.3);
  }
  second.GetHistogram(kPredictionRatio).Observe(3);
  EXPECT_EQ(ValueOf(whole, kRequestsReceived), 6);
  EXPECT_EQ(ValueOf(whole, kQueueDepth, {kOther}), 9);
  EXPECT_EQ(ValueOf(first, kRequestsReceived), 2);
  EXPECT_EQ(ValueOf(alone, kRequestsReceived), 2);
  const ClientMetric::Histogram ratio = SeriesOf(whole, kPredictionRatio)[0].histogram;
  EXPECT_EQ(ratio.sample_count, 4u);
  EXPECT_DOUBLE_EQ(ratio.sample_sum, 3 * 0.3 + 3);
  ASSERT_EQ(ratio.bucket.size(), std::size(bounds::kRatio) + 1);
  EXPECT_EQ(ratio.bucket[1].cumulative_count, 3u);  // up to a half
  EXPECT_EQ(ratio.bucket.back().cumulative_count, 4u);
}

TEST(RegistryPartsTest, GaugesThatAreNoAmountsAreMergedAsTheirFamilySays) {
  Registry whole;
  Registry first(&whole), second(&whole);
  whole.Declare(Declared::kBuckets, {"64x64"});
  first.Declare(Declared::kBuckets, {"64x64"});
  second.Declare(Declared::kBuckets, {"64x64"});
  first.GetGauge(kBucketLastUsed, {"64x64"}).Set(5);
  second.GetGauge(kBucketLastUsed, {"64x64"}).Set(4);
  first.GetGauge(kBucketWarm, {"64x64"}).Set(1);
  first.GetGauge(kServerState, {"ready"}).Set(1);
  whole.GetGauge(kServerState, {"warming"}).Set(1);
  EXPECT_EQ(ValueOf(whole, kBucketLastUsed, {"64x64"}), 5);
  EXPECT_EQ(ValueOf(whole, kBucketWarm, {"64x64"}), 0);
  second.GetGauge(kBucketWarm, {"64x64"}).Set(1);
  EXPECT_EQ(ValueOf(whole, kBucketWarm, {"64x64"}), 1);  // the whole sets none of its own
  EXPECT_EQ(ValueOf(whole, kServerState, {"ready"}), 0);
  EXPECT_EQ(ValueOf(whole, kServerState, {"warming"}), 1);
}

TEST(RegistryPartsTest, TheHostIsOneForAllDevices) {
  Registry whole;
  Registry first(&whole), second(&whole);
  for (Registry* part : {&first, &second}) {
    part->GetGauge(kMemoryAvailable, {kHost}).Set(part == &first ? 3 : 4);
    part->GetGauge(kMemoryAvailable, {kDevice}).Set(10);
  }
  EXPECT_EQ(ValueOf(whole, kMemoryAvailable, {kHost}), 4);
  EXPECT_EQ(ValueOf(whole, kMemoryAvailable, {kDevice}), 20);
}

TEST(RegistryPartsTest, SeriesThatOnlyAPartHasAreTheWholes) {
  Registry whole;
  Registry part(&whole);
  part.GetGauge(kModelInfo, {"base", "sdxl", "Pipeline", "cuda"}).Set(1);
  EXPECT_EQ(ValueOf(whole, kModelInfo, {"base", "sdxl", "Pipeline", "cuda"}), 1);
}

TEST(RegistryPartsTest, BucketsOfAPartAreTheWholesToo) {
  Registry whole;
  Registry part(&whole);
  part.Declare(Declared::kBuckets, {"64x64"});
  whole.GetHistogram(kQueueSeconds, {"64x64"}).Observe(1);
  EXPECT_THAT(LabelsOf(whole, kQueueSeconds), Contains(LabelValues{"64x64"}));
}

// Its counters stay what they were, or sums would fall.
TEST(RegistryPartsTest, OfAPartThatIsRetiredNoGaugeIsCollected) {
  Registry whole;
  Registry first(&whole), second(&whole);
  whole.Declare(Declared::kBuckets, {"64x64"});
  for (Registry* part : {&first, &second}) {
    part->Declare(Declared::kBuckets, {"64x64"});
    part->GetCounter(kRequestsReceived).Increment();
    part->GetGauge(kMemoryBudget, {kDevice}).Set(5);
  }
  first.GetGauge(kBucketWarm, {"64x64"}).Set(1);
  first.GetHistogram(kQueueSeconds, {"64x64"}).Observe(1);
  EXPECT_EQ(ValueOf(whole, kBucketWarm, {"64x64"}), 0);
  second.Retire();
  EXPECT_EQ(ValueOf(whole, kRequestsReceived), 2);
  EXPECT_EQ(ValueOf(whole, kMemoryBudget, {kDevice}), 5);
  EXPECT_EQ(ValueOf(whole, kBucketWarm, {"64x64"}), 1);  // the others have it
}

TEST(RegistryPartsTest, APartThatIsGoneIsNotCollected) {
  Registry whole;
  {
    Registry part(&whole);
    part.GetCounter(kRequestsReceived).Increment();
    EXPECT_EQ(ValueOf(whole, kRequestsReceived), 1);
  }
  EXPECT_EQ(ValueOf(whole, kRequestsReceived), 0);
}

}  // namespace
}  // namespace latentd::metrics
