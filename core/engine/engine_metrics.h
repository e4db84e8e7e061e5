// What requests and their work add to the metrics. Buckets that have not been declared at the
// registry count as "other".
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "core/engine/generate_spec.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class EngineMetrics {
 public:
  // `registry` must outlive this.
  explicit EngineMetrics(metrics::Registry& registry) : registry_(registry) {}

  // Submit refused the request. Only its reason and code count.
  void Rejected(const absl::Status& status);
  // The preparing thread failed a request that had been accepted: counts as refused where its size
  // is the reason, which no memory or no permission to compile is there for.
  void RejectedLater(const absl::Status& status);
  void Adjusted(pipeline::BucketPolicy policy);

  // Of a request that was accepted; it has as many `pictures`.
  void Accepted(const std::string& bucket, int pictures);
  void Began(const std::string& bucket, absl::Duration queued, absl::Time wall);
  void Ended(const absl::Status& status, bool had_begun);
  // The first of its pictures has taken its first step, that long after it came.
  void FirstStepDone(const std::string& bucket, absl::Duration after);
  // It took this, and was predicted to take that, where anything was predicted.
  void Completed(absl::Duration took, absl::Duration predicted);

  void PictureLeft(const std::string& bucket);
  // An evaluation: `rows` are pictures', of those that were computed.
  void Evaluated(Stage stage, const std::string& bucket, absl::Duration duration, int rows,
                 int computed);
  // Of it the steps, as users count them, of one picture.
  void StepsDone(Stage stage, int steps);
  void StageDone(Stage stage, const std::string& bucket, absl::Duration duration);
  void ImageDone(const std::string& bucket, const Image& image);
  void DecodeRedone();
  // What a unit of that stage failed with; not counted where there is no memory for it.
  void UnitFailed(Stage stage, const absl::Status& status);

 private:
  metrics::Registry& registry_;
};

}  // namespace latentd::engine
