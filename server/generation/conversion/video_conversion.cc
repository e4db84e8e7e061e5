#include "server/generation/conversion/video_conversion.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "core/engine/api/model_name.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/video_fields.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/generation/conversion/field_conversion.h"
#include "server/generation/conversion/request_fields.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/generation/conversion/video_output.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

// A video of one frame has frames.
v1::BucketSize ToVideoSize(const pipeline::Size& size) {
  v1::BucketSize proto = ToBucketSize(size);
  proto.set_num_frames(size.frames);
  return proto;
}

v1::VideoProgress ToVideoProgress(const engine::Progress& progress) {
  v1::VideoProgress proto;
  proto.set_video_index(progress.image_index);
  proto.set_stage(ToProto(progress.stage));
  proto.set_step(progress.step);
  proto.set_total_steps(progress.total_steps);
  proto.set_model(progress.model);
  return proto;
}

v1::VideoPreview ToVideoPreview(const engine::Preview& preview) {
  v1::VideoPreview proto;
  proto.set_video_index(preview.image_index);
  proto.set_step(preview.step);
  proto.set_total_steps(preview.total_steps);
  *proto.mutable_size() = ToVideoSize(preview.size);
  if (preview.video_format) {
    const absl::string_view mime_type = image::TypeOf(*preview.video_format).mime_type;
    proto.set_mime_type(mime_type.data(), mime_type.size());
  }
  proto.set_data(preview.bytes);
  return proto;
}

v1::FrameChunk ToFrameChunk(const engine::Image& frame, int64_t offset) {
  v1::FrameChunk proto;
  proto.set_video_index(frame.index);
  proto.set_frame(frame.frame);
  proto.set_seed(frame.seed);
  *proto.mutable_size() = ToProto(frame.size);
  const absl::string_view mime_type = image::MimeType(frame.format);
  proto.set_mime_type(mime_type.data(), mime_type.size());
  proto.set_offset(offset);
  proto.set_total_bytes(static_cast<int64_t>(frame.bytes.size()));
  return proto;
}

// `told` is what a client of pictures is told of the same.
v1::VideoCompleted ToVideoCompleted(const engine::Completed& completed, const v1::Completed& told) {
  v1::VideoCompleted proto;
  *proto.mutable_timings() = told.timings();
  *proto.mutable_warnings() = told.warnings();
  *proto.mutable_executed_size() = ToVideoSize(completed.executed_size);
  SetFields(completed.effective, *proto.mutable_parameters());
  const v1::Output& output = told.parameters().output();
  v1::VideoOutput& own = *proto.mutable_parameters()->mutable_output();
  if (completed.video_file) {
    own = ToVideoOutput(*completed.video_file);
    return proto;
  }
  own.set_format(output.format());
  if (output.has_quality()) own.set_quality(output.quality());
  return proto;
}

// Sets the member of `event` that is of this kind; a failure is no message.
struct VideoEventSetter {
  void operator()(const engine::Queued& queued) const { *event.mutable_queued() = ToProto(queued); }
  void operator()(const engine::Started& started) const {
    *event.mutable_started()->mutable_executed_size() = ToVideoSize(started.executed_size);
  }
  void operator()(const engine::Progress& progress) const {
    *event.mutable_progress() = ToVideoProgress(progress);
  }
  void operator()(const engine::Preview& preview) const {
    *event.mutable_preview() = ToVideoPreview(preview);
  }
  void operator()(const engine::Image& image) const {
    const int64_t offset = message.image_chunk().offset();
    if (image.part) {
      *event.mutable_video_chunk() = ToVideoChunk(image, offset);
    } else {
      *event.mutable_frame_chunk() = ToFrameChunk(image, offset);
    }
  }
  void operator()(const engine::Completed& completed) const {
    *event.mutable_completed() = ToVideoCompleted(completed, message.completed());
  }
  void operator()(const engine::Failed&) const {}

  const v1::GenerateEvent& message;
  v1::VideoEvent& event;
};

v1::VideoModelInfo ToVideoModel(const engine::ModelInfo& model) {
  v1::VideoModelInfo proto;
  proto.set_name(model.component);
  proto.set_checkpoint(engine::NameOf(model));
  proto.set_class_name(model.class_name);
  proto.set_family(model.family);
  proto.set_default_steps(model.defaults.steps);
  *proto.mutable_default_size() = ToVideoSize(model.default_size);
  proto.set_default_decode_chunk_size(model.decode_chunk);
  proto.set_residency(ToProto(model.residency));
  return proto;
}

void SetVideoLimits(const engine::Capabilities& capabilities, absl::string_view caller,
                    v1::GetVideoCapabilitiesResponse& proto) {
  proto.set_max_side(pipeline::kMaxSide);
  proto.set_side_multiple(capabilities.side_multiple);
  proto.set_max_frames(pipeline::kMostFramesOfVideo);
  proto.set_min_steps(capabilities.min_steps);
  proto.set_max_steps(capabilities.max_steps);
  proto.set_max_guidance_scale(capabilities.max_guidance_scale);
  proto.set_max_fps(pipeline::kMostFps);
  proto.set_max_motion_bucket_id(pipeline::kMostMotion);
  proto.set_max_noise_aug_strength(pipeline::kMostNoise);
  proto.set_max_videos_per_prompt(capabilities.max_images_per_prompt);
  proto.set_min_priority(capabilities.min_priority);
  proto.set_max_priority(capabilities.priorities.MaxOf(caller));
  proto.set_queue_capacity(capabilities.queue_capacity);
}

}  // namespace

ConvertedRequest ToSpec(v1::GenerateVideoRequest request) {
  ConvertedRequest converted;
  converted.violations = CheckForm(request);
  engine::GenerateSpec& spec = converted.spec;
  spec.request_id = request.request_id();
  v1::Output output;
  output.set_format(request.output().format());
  if (request.output().has_quality()) output.set_quality(request.output().quality());
  output.set_embed_parameters(false);
  spec.output = OptionsOf(output);
  spec.priority = request.priority();
  SetFields(request, spec.picture);
  spec.video_file = ToVideoFile(request.output());
  spec.inputs = std::make_shared<const pipeline::Inputs>(
      pipeline::Inputs{.image = std::move(*request.mutable_image()),
                       .latents = std::move(*request.mutable_latents())});
  return converted;
}

v1::VideoEvent ToVideoEvent(const OutgoingEvent& event) {
  v1::VideoEvent proto;
  proto.set_request_id(event.message.request_id());
  std::visit(VideoEventSetter{event.message, proto}, *event.of);
  return proto;
}

v1::GetVideoCapabilitiesResponse ToVideoProto(const engine::Capabilities& capabilities,
                                              absl::string_view caller) {
  v1::GetVideoCapabilitiesResponse proto;
  std::set<std::string> names;
  for (const engine::ModelInfo& model : capabilities.models) {
    if (!model.draws_videos) continue;
    names.insert(model.component);
    *proto.add_models() = ToVideoModel(model);
  }
  for (const engine::ServerStatus::Bucket& bucket : capabilities.buckets) {
    if (!names.contains(bucket.model)) continue;
    v1::VideoBucket& added = *proto.add_buckets();
    *added.mutable_size() = ToVideoSize(bucket.size);
    added.set_ready(bucket.ready);
    added.set_model(bucket.model);
  }
  SetVideoLimits(capabilities, caller, proto);
  AddFormats(proto);
  proto.set_backend(capabilities.backend);
  for (std::string& path : FieldPaths(*v1::GenerateVideoRequest::descriptor())) {
    *proto.add_request_fields() = std::move(path);
  }
  return proto;
}

}  // namespace latentd::server::generation
