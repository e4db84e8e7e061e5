// A picture is resumable state: where it is in its schedule, its latents and the noise scheduler's
// history, its generator. No function loops over its steps; each unit of work (units.h) takes it
// one further and sets `next`. Memory of the device in here holds what it says once the stream has
// come so far.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batching/predict/unit.h"
#include "core/device/buffer.h"
#include "core/image/pixels/fit.h"
#include "core/image/pixels/overlay.h"
#include "core/image/pixels/pixels.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/graphs/nets.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/picture/guidance_watch.h"
#include "core/pipeline/picture/latent_colors.h"
#include "core/pipeline/picture/mask.h"
#include "core/pipeline/picture/prediction.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/picture/stage.h"
#include "core/pipeline/picture/video_state.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

using batching::Lane;

// A ControlNet of a request over the model of its first stage.
struct RequestControl {
  Nets::Graphs graphs;
  ExecutablePointer hint, request_part;
  StepLane::Executables steps;  // by the rows of the picture
  // Made by the first picture that needs them: what it reads of prompts, and of its image.
  std::optional<NamedBuffers> conditioning;
  NamedBuffers image;
};

// An IP-Adapter of a request, likewise.
struct RequestImagePrompt {
  Nets::Graphs graphs;
  ExecutablePointer encoder, prompt;
  // Values that steps read, for all rows of a picture, made by the first that needs them.
  device::Buffer rows;
};

// Everything that the pictures of one request share.
struct Request {
  // `models`: of the plan's stages, in order, on the device that draws the images.
  Request(SharedPlan plan, SharedInputs inputs, const std::vector<const LoadedModel*>& models);

  const PictureSpec& spec() const { return plan->spec; }

  const SharedPlan plan;
  const SharedInputs inputs;                      // null: none
  std::vector<Stage> stages;                      // as in the plan
  std::vector<RequestControl> controls;           // as in the plan
  std::vector<RequestImagePrompt> image_prompts;  // likewise
  std::vector<GraphHandle> graphs;                // all graphs below: kept, so that they stay known
  ExecutablePointer encode, sample;               // null: there is no init image
  ExecutablePointer decode;                       // null: latents are wanted
  // Decodes in float32 what came out not finite; null unless `decode` runs in float16.
  ExecutablePointer decode_fallback;
  // By stage (MakeConditioning); made by the first picture that needs it.
  std::vector<std::optional<NamedBuffers>> conditioning;
  std::optional<device::Buffer> encoded_image;  // the init image, by the VAE; made likewise
  std::optional<Mask> mask;                     // read likewise
  // The part of the init image that is drawn, found with the mask; absent: all of it. And the greys
  // of the mask in pixels of the image that is laid over what is drawn, until that is read.
  std::optional<image::Box> crop;
  std::vector<uint8_t> kept_greys;
  std::shared_ptr<const image::Overlay> overlay;  // for the images' pixels; null: none
  // The init image without what the mask draws over, for a UNet that inpaints; made likewise.
  std::optional<device::Buffer> encoded_masked_image;
  std::vector<std::string> image_warnings;  // about these files; since they were decoded
  // A video's image as the VAE reads it, made with the conditioning; and what decodes videos in the
  // place of `decode` and its fallback, by the frames that it decodes together: parts, in order.
  std::optional<device::Buffer> video_image;
  std::map<int, std::vector<ExecutablePointer>> chunks, chunk_fallbacks;
  // Decodes previews by a tiny VAE; null: they are in colours.
  ExecutablePointer preview;
  std::optional<LatentColors> colors;  // for previews; absent: none are drawn in colours
};

// A device that may evaluate rows of a picture's steps, by its number.
struct PictureHelper {
  int device = 0;
  // By stage, of one row; expired: not ready, or evicted since. A row of its steps holds its own.
  std::vector<std::weak_ptr<backends::Executable>> networks;
};

struct Picture {
  // The image of the plan's seed at that index.
  Picture(std::shared_ptr<Request> shared, size_t index)
      : request(std::move(shared)),
        index(index),
        seed(request->spec().seeds[index]),
        generator(seed) {
    if (request->spec().video) video = std::make_unique<VideoState>();
  }

  const Plan& plan() const { return *request->plan; }
  const Stage& stage() const { return request->stages[stage_index]; }
  // Model of the stage that is next, or ran last.
  const ModelRow& model() const { return stage().model.row(); }
  // Rows of a step, at most; of the next one; of those that are left in its stage, at most.
  int rows() const { return plan().rows; }
  int next_rows() const;
  int rows_ahead() const;
  // True if the next one computes the shallow part of the network alone.
  bool next_is_shallow() const;
  // Rows of the next one that guidance_stop leaves out.
  int skipped_rows() const;
  // Steps as users count them after which guidance_stop has ended guidance; 0: it has not, or there
  // was none left.
  int guidance_stopped_after() const;
  // By bits, devices that could evaluate one of the two rows of its next step.
  uint64_t helpers() const;
  // `there` is the same on another device, which helps if it has the networks.
  void AddHelper(int device, const Picture& there);
  // Its stage's network on that device; null: there is none, or none any more.
  ExecutablePointer NetworkOn(int device) const;
  // Ranks of the low-rank paths that its rows have in its stage; 0: none.
  int ranks() const { return stage_index == 0 ? plan().ranks : 0; }
  // Lane in which the steps of its stage run.
  Lane lane() const;
  // Work that it has left to do.
  batching::Ahead ahead() const;
  // Rows of one step there, at most; and of the lane.
  int most_rows() const { return stage().steps.empty() ? rows() : stage().steps.rbegin()->first; }
  int lane_rows() const { return plan().alone ? most_rows() : RowsOfLane(most_rows()); }
  Size size() const { return {*plan().spec.width, *plan().spec.height}; }
  Size executed_size() const { return plan().executed_size; }
  // True if there is a kPreview to enqueue: `prediction`, of which the picture itself is not due
  // yet.
  bool has_preview() const;
  // True if text encoders are still to run for that stage: its prompts are text, and no other
  // picture of the request has had them encoded.
  bool EncodesText(size_t stage) const;
  // Steps as users count them, of all stages together.
  int total_steps() const { return plan().total_steps(); }
  // Frees its rows of the lane, and the slot of their paths.
  void LeaveLane();
  // Goes on to the plan's next unit, which is next from now on; kDone after the last.
  void Advance();

  const std::shared_ptr<Request> request;
  const size_t index;  // among those of the request
  const uint64_t seed;
  UnitKind next = UnitKind::kText;  // to be enqueued
  size_t unit = 0;                  // index in the plan, of the one that is next or ran last
  size_t stage_index = 0;
  size_t evaluation = 0;  // index in the stage's schedule, to run next
  int steps_done = 0;     // out of total_steps
  noise::NoiseGenerator generator;
  GuidanceWatch guidance;  // asked with guidance_stop alone
  // [1, channels, h, w]: before the stage's first step and after its last. Of the host when next is
  // kDone, where the spec wants latents.
  device::Buffer latents;
  // Inputs of request->sample that put the init image back after each evaluation; empty: nothing
  // does, since there is no mask, or the UNet reads it. A differential mask is made before each.
  NamedBuffers kept;
  std::vector<RowValue> inpainting;      // for InpaintingPorts, where the UNet has them
  Prediction prediction;                 // to be drawn by a unit of its own: the newest
  device::Buffer handed_over;            // for the refiner, from the base; without memory if none
  std::optional<LanePlace> place;        // while the stage's steps run
  std::optional<PathSlot> path;          // likewise, where its rows have paths
  std::vector<RowValue> path_values;     // for PathPorts, while it has a slot
  std::vector<PictureHelper> helped_by;  // with the same models; empty once one had no memory
  // Memory of the one that has helped last, while the stage's steps run.
  std::shared_ptr<HelperRow> helper_row;
  bool has_residuals = false;  // control networks have added something in the step before
  bool decode_redone = false;  // by decode_fallback, or to be
  // When next is kDone, unless the spec wants latents or embeddings; without the request's overlay.
  image::Image pixels;
  // For output_embeds when next is kDone, on the host: by row of the stage's prompts, what its text
  // encoders gave for it (EncodePrompts); nothing for one of zeros.
  std::vector<NamedBuffers> embeds;
  std::unique_ptr<VideoState> video;  // null: it is an image

 private:
  // Rows of a stage's evaluation, which is there or behind the last, as far as is decided.
  int RowsAt(size_t stage, size_t evaluation) const;
  Lane LaneOf(const PlannedStage& stage) const;
  batching::Ahead::Stage StepsAhead(size_t stage) const;
  // Adds what is left of a unit that is no evaluation.
  void OthersAhead(UnitKind kind, batching::Ahead& ahead) const;
};

}  // namespace latentd::pipeline
