// Metrics of requests and of their work. Buckets that have not been declared at the
// registry count as "other".
//
// Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/api/events.h"
#include "core/engine/api/hangs.h"
#include "core/engine/requests/request_counts.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class EngineMetrics {
 public:
  // `registry` must outlive this. `devices` are labels, by device.
  explicit EngineMetrics(metrics::Registry& registry, std::vector<std::string> devices = {"0"})
      : registry_(registry), devices_(std::move(devices)), requests_(registry) {
    registry_.Declare(metrics::Declared::kDevices, devices_);
  }

  RequestCounts& requests() { return requests_; }
  void Adjusted(pipeline::BucketPolicy policy);

  // Counts an admitted request's pictures.
  void PicturesCame(const std::string& bucket, int pictures);
  void Began(const std::string& bucket, absl::Duration queued, absl::Time wall);
  // The first of its pictures has taken its first step, that long after it came.
  void FirstStepDone(const std::string& bucket, absl::Duration after);
  // It took this, and was predicted to take that, where anything was predicted.
  void Completed(absl::Duration took, absl::Duration predicted);

  void PictureLeft(const std::string& bucket);
  // A unit of that stage has taken the device so long; and that device a row of another one's step.
  void DeviceWorked(int device, Stage stage, absl::Duration duration);
  void DeviceHelped(int device);
  // Foreseen time until the device has done all that waits for it.
  void ShowBacklog(int device, absl::Duration backlog);
  // The device has failed.
  void DeviceFaulted(int device);
  // An evaluation by the model: `rows` are pictures', of those that were computed.
  void Evaluated(const std::string& model, const std::string& bucket, absl::Duration duration,
                 int rows, int computed);
  // Counts an evaluation that another device helped with.
  void StepSplit(const std::string& model);
  // Counts steps, as users count them, of one picture.
  void StepsDone(const std::string& model, int steps);
  // Rows that an evaluation of a picture had less because its guidance had stopped.
  void RowsSkipped(const std::string& model, int rows);
  // Counts an evaluation of a picture that computed a part of the UNet alone.
  void EvaluatedShallow(const std::string& model);
  void StageDone(Stage stage, const std::string& model, const std::string& bucket,
                 absl::Duration duration);
  // Counts the frames of a part of a video's file.
  void ImageDone(const std::string& bucket, const Image& image);
  void DecodeRedone();
  // Sets the gauges of hanging threads, of `threads`, and of the unit that runs.
  void ShowHangs(const Hangs& hangs, const ThreadWatches& threads);
  // Counts a failure of a unit of that stage; not where there is no memory for it.
  void UnitFailed(Stage stage, const absl::Status& status);

 private:
  // "other" where no label was given.
  const std::string& LabelOf(int device) const;

  metrics::Registry& registry_;
  const std::vector<std::string> devices_;
  RequestCounts requests_;
};

}  // namespace latentd::engine
