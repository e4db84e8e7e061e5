#include "core/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::metrics {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// Empty where the family has no series.
std::vector<Sample> SamplesOf(const Registry& registry, const Family& family) {
  for (FamilySamples& collected : registry.Collect()) {
    if (collected.family == &family) return std::move(collected.samples);
  }
  return {};
}

std::vector<LabelValues> LabelsOf(const Registry& registry, const Family& family) {
  std::vector<LabelValues> labels;
  for (const Sample& sample : SamplesOf(registry, family)) labels.push_back(sample.labels);
  return labels;
}

TEST(RegistryTest, CountersAndGaugesKeepWhatTheyAreTold) {
  Registry registry;
  Counter& counter = registry.GetCounter(kGraphCompilations, {"unet_base", "startup"});
  counter.Increment();
  counter.Increment(2.5);
  EXPECT_EQ(&registry.GetCounter(kGraphCompilations, {"unet_base", "startup"}), &counter);
  EXPECT_EQ(counter.value(), 3.5);
  EXPECT_EQ(registry.GetCounter(kGraphCompilations, {"unet_base", "warm"}).value(), 0);

  Gauge& gauge = registry.GetGauge(kQueueDepth, {"other"});
  gauge.Set(7);
  gauge.Add(-9);
  EXPECT_EQ(gauge.value(), -2);
}

TEST(RegistryTest, AHistogramCountsWhatIsAtMostEachBound) {
  constexpr double kBounds[] = {1, 2, 5};
  Histogram histogram(kBounds);
  for (double value : {0.5, 1.0, 1.5, 5.0, 5.5, 100.0}) histogram.Observe(value);
  const Histogram::Snapshot snapshot = histogram.snapshot();
  EXPECT_THAT(snapshot.cumulative, ElementsAre(2, 3, 4, 6));
  EXPECT_EQ(snapshot.sum, 113.5);
}

TEST(RegistryTest, ASnapshotIsOfItsTime) {
  Registry registry;
  Histogram& seconds = registry.GetHistogram(kQueueSeconds, {"other"});
  seconds.Observe(2.5);
  const std::vector<Sample> before = SamplesOf(registry, kQueueSeconds);
  seconds.Observe(1e9);
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_EQ(before[0].histogram.cumulative.back(), 1u);
  EXPECT_EQ(before[0].histogram.sum, 2.5);
  EXPECT_THAT(before[0].histogram.cumulative, SizeIs(kQueueSeconds.bounds.size() + 1));
}

TEST(RegistryTest, BoundedSeriesAreThereFromTheStart) {
  Registry registry;
  const std::vector<FamilySamples> all = registry.Collect();
  std::vector<const Family*> families;
  for (const FamilySamples& collected : all) {
    families.push_back(collected.family);
    for (const Sample& sample : collected.samples) {
      EXPECT_EQ(sample.value, 0);
      EXPECT_THAT(sample.histogram.cumulative, Each(0));
    }
  }
  std::vector<const Family*> expected;
  for (const Family* family : kFamilies) {
    const bool needs_more = family->labels[0].name != nullptr &&
                            (family->labels[0].is_free() || family == &kBucketWarm);
    if (!needs_more) expected.push_back(family);
  }
  EXPECT_EQ(families, expected);
  EXPECT_THAT(LabelsOf(registry, kGraphCacheBytes),
              ElementsAre(LabelValues{"disk"}, LabelValues{"memory"}));
  EXPECT_THAT(LabelsOf(registry, kGraphCompilations), SizeIs(6 * 4));
  EXPECT_THAT(LabelsOf(registry, kPixels), ElementsAre(LabelValues{}));
}

TEST(RegistryTest, DeclaredBucketsAreThereAndOthersAreOther) {
  Registry registry;
  registry.GetGauge(kQueueDepth, {"256x256"}).Set(1);
  EXPECT_THAT(LabelsOf(registry, kQueueDepth), ElementsAre(LabelValues{"other"}));

  registry.DeclareBuckets({"256x256"});
  registry.DeclareBuckets({"320x192", "256x256"});
  EXPECT_THAT(LabelsOf(registry, kQueueDepth),
              ElementsAre(LabelValues{"256x256"}, LabelValues{"320x192"}, LabelValues{"other"}));
  EXPECT_THAT(LabelsOf(registry, kBucketWarm),
              ElementsAre(LabelValues{"256x256"}, LabelValues{"320x192"}));
  EXPECT_EQ(registry.GetGauge(kQueueDepth, {"other"}).value(), 1);
  EXPECT_EQ(registry.GetGauge(kQueueDepth, {"256x256"}).value(), 0);
  EXPECT_EQ(&registry.GetGauge(kQueueDepth, {"8x8"}), &registry.GetGauge(kQueueDepth, {"other"}));
}

TEST(RegistryTest, AValueThatALabelCannotHaveIsOther) {
  Registry registry;
  registry.GetCounter(kGraphCompilations, {"unet_base", "whim"}).Increment();
  registry.GetCounter(kGraphCompilations, {"unet_base", "caprice"}).Increment();
  EXPECT_EQ(registry.GetCounter(kGraphCompilations, {"unet_base", "other"}).value(), 2);
  EXPECT_THAT(LabelsOf(registry, kGraphCompilations), SizeIs(6 * 4 + 1));
}

TEST(RegistryTest, FreeLabelsTakeAnythingUpToALimit) {
  Registry registry;
  EXPECT_THAT(LabelsOf(registry, kModelInfo), IsEmpty());
  registry.GetGauge(kModelInfo, {"base", "Pipeline", "cpu"}).Set(1);
  EXPECT_THAT(LabelsOf(registry, kModelInfo), ElementsAre(LabelValues{"base", "Pipeline", "cpu"}));
  for (size_t i = 0; i < 2 * kMaxSeries; ++i) {
    registry.GetGauge(kModelInfo, {absl::StrCat(i), "", ""}).Add(1);
  }
  EXPECT_THAT(LabelsOf(registry, kModelInfo), SizeIs(kMaxSeries + 1));
  EXPECT_THAT(LabelsOf(registry, kModelInfo), Contains(LabelValues{"other", "other", "other"}));
  EXPECT_EQ(registry.GetGauge(kModelInfo, {"0", "", ""}).value(), 1);
  EXPECT_EQ(registry.GetGauge(kModelInfo, {"other", "other", "other"}).value(), kMaxSeries + 1);
}

TEST(RegistryTest, ManyBucketsDoNotMakeMoreSeriesThanTheLimit) {
  Registry registry;
  std::vector<std::string> buckets;
  for (size_t i = 0; i < kMaxSeries; ++i) buckets.push_back(absl::StrCat(8 * i, "x64"));
  registry.DeclareBuckets(buckets);
  for (const FamilySamples& collected : registry.Collect()) {
    EXPECT_LE(collected.samples.size(), kMaxSeries + 1) << collected.family->name;
  }
}

TEST(RegistryTest, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4, kRounds = 2000;
  Registry registry;
  registry.DeclareBuckets({"256x256"});
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        registry.GetCounter(kSteps, {"base"}).Increment();
        registry.GetGauge(kRequestsInFlight).Add(round % 2 == 0 ? 1 : -1);
        registry.GetHistogram(kStepSeconds, {"base", "256x256"}).Observe(0.5);
        registry.GetGauge(kModelInfo, {absl::StrCat(round % 5), "", ""}).Set(1);
      }
    });
  }
  std::thread scraper([&] {
    double last = 0;
    for (int round = 0; round < 50; ++round) {
      for (const Sample& sample : SamplesOf(registry, kStepSeconds)) {
        if (sample.labels != LabelValues{"base", "256x256"}) continue;
        EXPECT_EQ(sample.histogram.sum, 0.5 * sample.histogram.cumulative.back());
        EXPECT_GE(sample.histogram.sum, last);
        last = sample.histogram.sum;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  scraper.join();
  EXPECT_EQ(registry.GetCounter(kSteps, {"base"}).value(), kThreads * kRounds);
  EXPECT_EQ(registry.GetGauge(kRequestsInFlight).value(), 0);
  EXPECT_EQ(registry.GetHistogram(kStepSeconds, {"base", "256x256"}).snapshot().cumulative.back(),
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
    EXPECT_TRUE(family->type != Type::kHistogram || absl::EndsWith(name, "_seconds")) << name;
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

// What a typo in families.h would break.
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

}  // namespace
}  // namespace latentd::metrics
