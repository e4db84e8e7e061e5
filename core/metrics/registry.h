// Counters, gauges and histograms that core increments and server/ exports.
//
//   registry.GetCounter(families::kGraphCompilations, {"unet_base", "startup"}).Increment();
//
// A family is a constant (families.h); its series are made when they are first asked for, live as
// long as the registry, and keep their address: ask once and keep the reference where it is hot.
// Bounded: a family has at most kMaxSeries series; beyond that every label value becomes "other".
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/metrics/families.h"

namespace latentd::metrics {

// Label values in the order of the family's label names.
using LabelValues = std::vector<std::string>;

inline constexpr size_t kMaxSeries = 512;

class Counter {
 public:
  void Increment(double by = 1);  // REQUIRES: by >= 0
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Histogram {
 public:
  // Upper bounds of the buckets, ascending; a last one for everything above is implied.
  explicit Histogram(absl::Span<const double> bounds);
  void Observe(double value);

  struct Snapshot {
    std::vector<double> bounds;
    std::vector<uint64_t> cumulative;  // observations at most each bound, then all of them
    double sum = 0;
  };
  Snapshot snapshot() const;

 private:
  const std::vector<double> bounds_;
  mutable absl::Mutex mutex_;
  std::vector<uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
  double sum_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What a scrape sees of one series.
struct Sample {
  LabelValues labels;
  double value = 0;               // of counters and gauges
  Histogram::Snapshot histogram;  // of histograms
};

struct FamilySamples {
  const Family* family = nullptr;
  std::vector<Sample> samples;  // in order of labels
};

class Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;

  // REQUIRES: the family is of that type and has as many labels as `labels`.
  Counter& GetCounter(const Family& family, const LabelValues& labels = {});
  Gauge& GetGauge(const Family& family, const LabelValues& labels = {});
  Histogram& GetHistogram(const Family& family, const LabelValues& labels = {});

  // Every family of families.h that has a series, in the order of that file.
  std::vector<FamilySamples> Collect() const;

 private:
  struct Series;
  Series& Find(const Family& family, LabelValues labels) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<const Family*, std::map<LabelValues, std::unique_ptr<Series>>> series_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::metrics
