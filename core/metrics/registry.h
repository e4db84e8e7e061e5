// Prometheus' counters, gauges and histograms, which core increments and server/ exports.
//
//   registry.GetCounter(kGraphCompilations, {"base", "unet", "startup"}).Increment();
//
// A family is a constant (families.h). Every series whose labels are bounded is there from the
// start, at 0; those of families with a free label are made when they are first asked for. Series
// live as long as the registry and keep their address: ask once and keep the reference where it is
// hot. Bounded: what a label cannot be becomes "other", and beyond kMaxSeries of a family every
// label does. A label's value that is not UTF-8 becomes it (core/base/text/utf8.h).
//
// A registry may be part of another, such as that of one of several devices: what the whole
// collects is what it counts itself and what its parts do, as MergeOf says (merge.h). What is to
// add up at every scrape is counted in one of them. Thread-safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <atomic>
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

// Bounds a family: 64 buckets and "other", six stages and two models make 780.
inline constexpr size_t kMaxSeries = 1024;

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

class Registry {
 public:
  // A part of `whole`, which outlives it and is itself part of none; null: it stands alone.
  explicit Registry(Registry* whole = nullptr);
  ~Registry();
  Registry(const Registry&) = delete;

  // Values from now on of labels that take such ones, beside those declared before: what has not
  // been declared is "other". Of the whole too. REQUIRES: not kNone.
  void Declare(Declared what, absl::Span<const std::string> values) ABSL_LOCKS_EXCLUDED(mutex_);

  // REQUIRES: the family is one of kFamilies, of that type, and has as many labels as `labels`.
  Counter& GetCounter(const Family& family, const LabelValues& labels = {});
  Gauge& GetGauge(const Family& family, const LabelValues& labels = {});
  Histogram& GetHistogram(const Family& family, const LabelValues& labels = {});

  // The part's device has failed: from now on the whole collects its counters and histograms, and
  // none of its gauges, which are of what is no more. REQUIRES: it is a part.
  void Retire() { retired_ = true; }

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

  // Result of a scrape: every family that has a series, in the order of kFamilies, its series in
  // the order of their labels. Not together with a Change of this thread, of a part either.
  std::vector<prometheus::MetricFamily> Collect() const
      ABSL_LOCKS_EXCLUDED(parts_mutex_, changes_, mutex_);

 private:
  using Series = std::variant<Counter, Gauge, Histogram>;
  using Samples = std::map<LabelValues, prometheus::ClientMetric>;
  using SamplesByFamily = std::map<const Family*, Samples>;

  void Add(const Registry& part) ABSL_LOCKS_EXCLUDED(parts_mutex_);
  void Remove(const Registry& part) ABSL_LOCKS_EXCLUDED(parts_mutex_);
  SamplesByFamily CollectOwn() const ABSL_LOCKS_EXCLUDED(changes_, mutex_);
  void MergeParts(SamplesByFamily& all) const ABSL_LOCKS_EXCLUDED(parts_mutex_);

  void MakeBoundedSeries() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All series whose first label values are `labels`.
  void MakeSeries(const Family& family, LabelValues& labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Series& Find(const Family& family, LabelValues labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsValue(const Label& label, absl::string_view value) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Registry* const whole_;
  mutable absl::Mutex parts_mutex_;  // taken before the parts' own
  std::vector<const Registry*> parts_ ABSL_GUARDED_BY(parts_mutex_);
  mutable absl::Mutex changes_;  // held by who changes several series; taken before the other
  mutable absl::Mutex mutex_;
  std::map<Declared, std::set<std::string, std::less<>>> declared_ ABSL_GUARDED_BY(mutex_);
  std::map<const Family*, std::map<LabelValues, Series>> series_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> retired_ = false;
};

}  // namespace latentd::metrics
