// Prometheus' counters, gauges and histograms, which core increments and server/ exports.
//
//   registry.GetCounter(kGraphCompilations, {"unet_base", "startup"}).Increment();
//
// A family is a constant (families.h). Every series whose labels are bounded is there from the
// start, at 0; those of families with a free label are made when they are first asked for. Series
// live as long as the registry and keep their address: ask once and keep the reference where it is
// hot. Bounded: what a label cannot be becomes "other", and beyond kMaxSeries of a family every
// label does. Thread-safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/metrics/families.h"

namespace latentd::metrics {

// Label values in the order of the family's label names.
using LabelValues = std::vector<std::string>;

inline constexpr size_t kMaxSeries = 512;

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

class Registry {
 public:
  Registry();
  Registry(const Registry&) = delete;

  // Values of the label "bucket" from now on, beside those declared before ("256x256"): what has
  // not been declared is "other".
  void DeclareBuckets(absl::Span<const std::string> buckets) ABSL_LOCKS_EXCLUDED(mutex_);

  // REQUIRES: the family is one of kFamilies, of that type, and has as many labels as `labels`.
  Counter& GetCounter(const Family& family, const LabelValues& labels = {});
  Gauge& GetGauge(const Family& family, const LabelValues& labels = {});
  Histogram& GetHistogram(const Family& family, const LabelValues& labels = {});

  // While one is alive nothing is collected: a scrape sees all that its thread changes meanwhile,
  // or nothing of it. One at a time a thread, which asks for no series meanwhile.
  class ABSL_SCOPED_LOCKABLE Change {
   public:
    explicit Change(const Registry& registry) ABSL_SHARED_LOCK_FUNCTION(registry.changes_)
        : changes_(registry.changes_) {
      changes_.ReaderLock();
    }
    ~Change() ABSL_UNLOCK_FUNCTION() { changes_.ReaderUnlock(); }
    Change(const Change&) = delete;

   private:
    absl::Mutex& changes_;
  };

  // What a scrape sees: every family that has a series, in the order of kFamilies, its series in
  // the order of their labels.
  std::vector<prometheus::MetricFamily> Collect() const ABSL_LOCKS_EXCLUDED(changes_, mutex_);

 private:
  using Series = std::variant<Counter, Gauge, Histogram>;

  void MakeBoundedSeries() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All series whose first label values are `labels`.
  void MakeSeries(const Family& family, LabelValues& labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Series& Find(const Family& family, LabelValues labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsValue(const Label& label, absl::string_view value) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex changes_;  // held by who changes several series; taken before the other
  mutable absl::Mutex mutex_;
  std::set<std::string, std::less<>> buckets_ ABSL_GUARDED_BY(mutex_);
  std::map<const Family*, std::map<LabelValues, Series>> series_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::metrics
