#include "core/engine/requests/engine_metrics.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/device_fault.h"
#include "core/pipeline/picture/finite.h"

namespace latentd::engine {
namespace {

const char* Name(image::Format format) {
  switch (format) {
    case image::Format::kPng:
      return "png";
    case image::Format::kJpeg:
      return "jpeg";
    case image::Format::kWebp:
      return "webp";
    case image::Format::kRawRgb8:
      return "raw";
    case image::Format::kLatent:
      return "latent";
    case image::Format::kEmbeds:
      return "embeds";
  }
  return "";
}

// The format of its pixels in the file.
const char* FormatName(const Image& image) {
  if (!image.part) return Name(image.format);
  switch (image.part->format) {
    case image::VideoFormat::kWebp:
      return "webp";
    case image::VideoFormat::kApng:
      return "png";
    case image::VideoFormat::kAvi:
      return "jpeg";
    case image::VideoFormat::kY4m:
    case image::VideoFormat::kRaw:
      return "raw";
    case image::VideoFormat::kWebm:
      return "vp9";
  }
  return "";
}

}  // namespace

void EngineMetrics::Adjusted(pipeline::BucketPolicy policy) {
  const bool snap = policy == pipeline::BucketPolicy::kSnap;
  registry_.GetCounter(metrics::kSizeAdjustments, {snap ? "snap" : "other"}).Increment();
}

void EngineMetrics::PicturesCame(const std::string& bucket, int pictures) {
  registry_.GetGauge(metrics::kQueueDepth, {bucket}).Increment(pictures);
}

void EngineMetrics::Began(const std::string& bucket, absl::Duration queued, absl::Time wall) {
  registry_.GetHistogram(metrics::kQueueSeconds, {bucket}).Observe(absl::ToDoubleSeconds(queued));
  registry_.GetGauge(metrics::kBucketLastUsed, {bucket})
      .Set(absl::ToDoubleSeconds(wall - absl::UnixEpoch()));
}

void EngineMetrics::FirstStepDone(const std::string& bucket, absl::Duration after) {
  registry_.GetHistogram(metrics::kFirstStepSeconds, {bucket})
      .Observe(absl::ToDoubleSeconds(after));
}

void EngineMetrics::Completed(absl::Duration took, absl::Duration predicted) {
  if (predicted <= absl::ZeroDuration()) return;
  registry_.GetHistogram(metrics::kPredictionRatio).Observe(absl::FDivDuration(took, predicted));
}

const std::string& EngineMetrics::LabelOf(int device) const {
  static const std::string* const kNone = new std::string(metrics::kOther);
  return static_cast<size_t>(device) < devices_.size() ? devices_[device] : *kNone;
}

void EngineMetrics::DeviceWorked(int device, Stage stage, absl::Duration duration) {
  registry_.GetCounter(metrics::kDeviceUnits, {LabelOf(device), NameOf(stage)}).Increment();
  registry_.GetCounter(metrics::kDeviceBusySeconds, {LabelOf(device), NameOf(stage)})
      .Increment(std::max(absl::ToDoubleSeconds(duration), 0.0));
}

void EngineMetrics::DeviceHelped(int device) {
  registry_.GetCounter(metrics::kDeviceHelpedSteps, {LabelOf(device)}).Increment();
}

void EngineMetrics::ShowBacklog(int device, absl::Duration backlog) {
  registry_.GetGauge(metrics::kDeviceBacklog, {LabelOf(device)})
      .Set(absl::ToDoubleSeconds(backlog));
}

void EngineMetrics::DeviceFaulted(int device) {
  registry_.GetGauge(metrics::kDeviceFaulted, {LabelOf(device)}).Set(1);
}

void EngineMetrics::PictureLeft(const std::string& bucket) {
  registry_.GetGauge(metrics::kQueueDepth, {bucket}).Decrement();
}

void EngineMetrics::Evaluated(const std::string& model, const std::string& bucket,
                              absl::Duration duration, int rows, int computed) {
  registry_.GetHistogram(metrics::kStepSeconds, {model, bucket})
      .Observe(absl::ToDoubleSeconds(duration));
  registry_.GetHistogram(metrics::kStepRows, {model}).Observe(rows);
  registry_.GetCounter(metrics::kPaddingRows, {model}).Increment(computed - rows);
}

void EngineMetrics::StepSplit(const std::string& model) {
  registry_.GetCounter(metrics::kSplitSteps, {model}).Increment();
}

void EngineMetrics::StepsDone(const std::string& model, int steps) {
  registry_.GetCounter(metrics::kSteps, {model}).Increment(steps);
}

void EngineMetrics::RowsSkipped(const std::string& model, int rows) {
  registry_.GetCounter(metrics::kSkippedRows, {model}).Increment(rows);
}

void EngineMetrics::EvaluatedShallow(const std::string& model) {
  registry_.GetCounter(metrics::kShallowEvaluations, {model}).Increment();
}

void EngineMetrics::StageDone(Stage stage, const std::string& model, const std::string& bucket,
                              absl::Duration duration) {
  registry_.GetHistogram(metrics::kStageSeconds, {NameOf(stage), model, bucket})
      .Observe(absl::ToDoubleSeconds(duration));
}

void EngineMetrics::ImageDone(const std::string& bucket, const Image& image) {
  registry_.GetCounter(metrics::kImages, {bucket, FormatName(image)}).Increment(image.count());
  registry_.GetCounter(metrics::kPixels)
      .Increment(double{1} * image.count() * image.size.width * image.size.height);
}

void EngineMetrics::DecodeRedone() {
  registry_.GetCounter(metrics::kInvalidImages, {"redone"}).Increment();
}

void EngineMetrics::ShowHangs(const Hangs& hangs, const ThreadWatches& threads) {
  registry_.GetGauge(metrics::kUnitOverdue).Set(hangs.unit.has_value() ? 1 : 0);
  for (const ThreadWatch& watch : threads.all()) {
    const bool is_overdue =
        absl::c_any_of(hangs.threads, [&](const auto& one) { return one.name == watch.name(); });
    registry_.GetGauge(metrics::kThreadOverdue, {watch.name()}).Set(is_overdue ? 1 : 0);
  }
}

void EngineMetrics::UnitFailed(Stage stage, const absl::Status& status) {
  // Callers go on to tell the failure.
  CatchOutOfMemory([&] {
    if (absl::IsResourceExhausted(status)) {
      registry_.GetCounter(metrics::kOutOfMemory, {NameOf(stage)}).Increment();
    }
    if (stage != Stage::kPreview && GetReason(status) == pipeline::kNotFinite) {
      registry_.GetCounter(metrics::kInvalidImages, {"failed"}).Increment();
    }
  }).IgnoreError();
}

}  // namespace latentd::engine
