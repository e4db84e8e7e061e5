#include "core/pipeline/units/video_units.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/memory_room.h"
#include "core/families/family/video_family.h"
#include "core/image/decode.h"
#include "core/image/pixels/fit.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/picture/pixels.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/units/unit_kinds.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

const families::VideoFamily& FamilyOf(const Picture& picture) {
  return *picture.stage().model.family().videos;
}

const VideoSpec& SpecOf(const Picture& picture) { return *picture.plan().spec.video; }

std::string NetworkOf(const Picture& picture, const char* component) {
  return absl::StrCat("the ", picture.model().name, "'s ", component);
}

// For the image as it is decoded, turned as EXIF says, and on its way to two other sizes.
absl::StatusOr<MemoryRoom> RoomForImage(const std::string& file) {
  constexpr int64_t kBytesOfPixel = 3 + 2 * 3 * int64_t{sizeof(float)};
  const image::Dimensions size = image::ReadDimensions(file).value_or(image::Dimensions());
  return MemoryRoom::Take(kBytesOfPixel * size.width * size.height, "the image of a video");
}

// Enqueues a row's part: the image's embeddings in the last one, zeros in the negative one.
absl::Status EnqueueVideoRow(const Picture& picture, int64_t row, const Buffer& embeds,
                             const NamedBuffers& packed, device::Stream& stream,
                             PendingWork& work) {
  const Stage& stage = picture.stage();
  const auto& time_ids = std::get<std::vector<float>>(
      stage.planned.prompts[static_cast<size_t>(row)].request.front().values);
  NamedBuffers ports;
  ASSIGN_OR_RETURN(
      ports[families::kTimeIds],
      Pinned<float>(stage.device(), DType::kF32, {1, static_cast<int64_t>(time_ids.size())},
                    absl::MakeConstSpan(time_ids)));
  const bool negative = row + 1 < static_cast<int64_t>(stage.planned.prompts.size());
  ports[families::kImageEmbeds] = embeds;
  if (negative) {
    ASSIGN_OR_RETURN(ports[families::kImageEmbeds],
                     stage.device().Allocate(DType::kF32, embeds.shape(), Place::kDevice));
  }
  for (const auto& [name, rows] : packed) ports[name] = rows.Rows(row, row + 1);
  return EnqueueGraph(stage.request_part, ports, /*to_host=*/{}, stream, work).status();
}

absl::StatusOr<NamedBuffers> VideoConditioning(const Picture& picture, const Buffer& pixels,
                                               device::Stream& stream, PendingWork& work) {
  const Stage& stage = picture.stage();
  ASSIGN_OR_RETURN(const NamedBuffers encoded,
                   EnqueueGraph(stage.text.front(), {{families::kPixelValues, pixels}},
                                /*to_host=*/{"finite"}, stream, work));
  work.flags.push_back(
      {encoded.at("finite"), "encoded image", NetworkOf(picture, families::kImageEncoder)});
  const auto rows = static_cast<int64_t>(stage.planned.prompts.size());
  NamedBuffers packed;
  for (const backends::Port& port : stage.request_part->outputs()) {
    ASSIGN_OR_RETURN(packed[port.name],
                     stage.device().Allocate(port.dtype, {rows, port.shape[1]}, Place::kDevice));
  }
  for (int64_t row = 0; row < rows; ++row) {
    RETURN_IF_ERROR(
        EnqueueVideoRow(picture, row, encoded.at(families::kImageEmbeds), packed, stream, work));
  }
  return packed;
}

// The latents in the last of the video's rows, behind zeros.
absl::StatusOr<Buffer> InLastRow(const Picture& picture, const Buffer& latents,
                                 device::Stream& stream) {
  const int64_t rows = picture.rows();
  device::Device& device = picture.stage().device();
  ASSIGN_OR_RETURN(Buffer all,
                   device.Allocate(DType::kF32, {rows, latents.elements()}, Place::kDevice));
  RETURN_IF_ERROR(device.Copy(latents, all.Rows(rows - 1, rows), stream));
  return all;
}

// A copy of the latents of `count` frames.
absl::StatusOr<Buffer> ChunkLatents(const Picture& picture, int64_t first, int64_t count,
                                    device::Stream& stream) {
  const LatentSize& size = picture.plan().latents;
  const device::Shape shape = {picture.executed_size().frames,
                               picture.stage().model.latent_channels(), size.height, size.width};
  device::Device& device = picture.stage().device();
  ASSIGN_OR_RETURN(Buffer chunk, device.Allocate(DType::kF32, {count, shape[1], shape[2], shape[3]},
                                                 Place::kDevice));
  RETURN_IF_ERROR(
      device.Copy(picture.latents.Reshaped(shape).Rows(first, first + count), chunk, stream));
  return chunk;
}

// Executables that decode the next chunk: parts one after the other, or one in float32.
const std::vector<ExecutablePointer>& DecodersOf(const Picture& picture, int count) {
  const Request& request = *picture.request;
  return (picture.video->redoes_chunk ? request.chunk_fallbacks : request.chunks).at(count);
}

// Takes what the part of the decoder before the next one has left for it.
absl::StatusOr<NamedBuffers> DecoderInputs(Picture& picture, int count, device::Stream& stream) {
  VideoState& video = *picture.video;
  if (video.parts_done > 0) {
    return NamedBuffers{{families::kFeatures, std::exchange(video.features, Buffer())}};
  }
  ASSIGN_OR_RETURN(const Buffer latents, ChunkLatents(picture, video.decoded, count, stream));
  return NamedBuffers{{"latents", latents}};
}

image::Image FrameOf(const Buffer& pixels, int64_t index) {
  const auto bytes = pixels.Rows(index, index + 1).as<uint8_t>();
  return {static_cast<int>(pixels.shape()[2]),
          static_cast<int>(pixels.shape()[1]),
          {bytes.begin(), bytes.end()}};
}

// The image as both networks see it: cut to the video's proportions and size, or as it was sent.
absl::StatusOr<image::Image> VideoImage(const Picture& picture) {
  Request& request = *picture.request;
  ASSIGN_OR_RETURN(image::Image image,
                   DecodeField(request.inputs->image, "image", request.image_warnings));
  if (SpecOf(picture).resize_mode == ResizeMode::kStretch) return image;
  const Size size = picture.executed_size();
  absl::StatusOr<image::Image> cut = image::ResizeToCover(image, size.width, size.height);
  if (absl::IsInvalidArgument(cut.status())) {
    return InvalidFields({{"image", absl::StrCat("RESIZE_MODE_CROP: ", cut.status().message())}});
  }
  return cut;
}

}  // namespace

absl::Status EnqueueVideoText(Picture& picture, device::Stream& stream, UnitPart& part) {
  Request& request = *picture.request;
  part.encodes_all = picture.EncodesText(0);
  auto& conditioning = request.conditioning.front();
  if (!conditioning) {
    const families::VideoFamily& family = FamilyOf(picture);
    ASSIGN_OR_RETURN(const MemoryRoom room, RoomForImage(request.inputs->image));
    ASSIGN_OR_RETURN(const image::Image image, VideoImage(picture));
    const Size size = picture.executed_size();
    ASSIGN_OR_RETURN(request.video_image, family.vae_pixels(image, size.width, size.height));
    ASSIGN_OR_RETURN(const Buffer pixels,
                     family.encoder_pixels(picture.stage().model.configs(), image));
    ASSIGN_OR_RETURN(conditioning, VideoConditioning(picture, pixels, stream, part.work));
  }
  picture.Advance();
  return absl::OkStatus();
}

absl::Status EnqueueVideoEncode(Picture& picture, device::Stream& stream, UnitPart& part) {
  device::Device& device = picture.stage().device();
  const Size size = picture.executed_size();
  NamedBuffers inputs = {{"image", *picture.request->video_image},
                         {"noise", picture.generator.Normal({1, 3, size.height, size.width})}};
  ASSIGN_OR_RETURN(inputs[families::kNoiseStrength],
                   ScaleOf(device, SpecOf(picture).noise_aug_strength));
  ASSIGN_OR_RETURN(
      const NamedBuffers outputs,
      EnqueueGraph(picture.request->encode, inputs, /*to_host=*/{"finite"}, stream, part.work));
  part.work.flags.push_back({outputs.at("finite"), "encoded image", NetworkOf(picture, "vae")});
  ASSIGN_OR_RETURN(picture.video->image_latents,
                   InLastRow(picture, outputs.at(families::kImageLatents), stream));
  const std::vector<float> guidance = FamilyOf(picture).guidance(SpecOf(picture));
  ASSIGN_OR_RETURN(picture.video->guidance, Pinned<float>(device, DType::kF32, {1, size.frames},
                                                          absl::MakeConstSpan(guidance)));
  picture.Advance();
  return BeginSteps(picture, stream, part);
}

std::vector<RowValue> VideoValues(const Picture& picture) {
  std::vector<RowValue> values = {{families::kFrameGuidance, picture.video->guidance},
                                  {families::kImageLatents, picture.video->image_latents}};
  for (const auto& [name, rows] : *picture.request->conditioning.front()) {
    values.push_back({name, rows});
  }
  return values;
}

absl::Status EnqueueVideoDecode(Picture& picture, device::Stream& stream, UnitPart& part) {
  VideoState& video = *picture.video;
  const int count = ChunkAt(SpecOf(picture), video.decoded);
  const auto& decoders = DecodersOf(picture, count);
  const auto at = static_cast<size_t>(video.parts_done);
  const bool is_last = at + 1 == decoders.size();
  part.amount = WorkOfPart(count, static_cast<int>(decoders.size()));
  ASSIGN_OR_RETURN(const NamedBuffers inputs, DecoderInputs(picture, count, stream));
  std::vector<std::string> to_host;
  if (is_last) to_host = {"finite", "pixels"};
  ASSIGN_OR_RETURN(const NamedBuffers outputs,
                   EnqueueGraph(decoders[at], inputs, to_host, stream, part.work));
  if (!is_last) {
    video.features = outputs.at(families::kNextFeatures);
    ++video.parts_done;
    return absl::OkStatus();
  }
  part.work.flags.push_back(
      {outputs.at("finite"),
       video.redoes_chunk ? "frames decoded again in float32" : "decoded frames",
       NetworkOf(picture, "vae")});
  part.pixels = outputs.at("pixels");
  picture.next = UnitKind::kWait;
  return absl::OkStatus();
}

absl::Status CompleteVideoDecode(Picture& picture, UnitPart& part) {
  const bool is_last = part.pixels.has_memory();
  if (!is_last) return absl::OkStatus();
  VideoState& video = *picture.video;
  video.parts_done = 0;
  absl::Status finite;
  for (const FiniteFlag& flag : part.work.flags) finite.Update(flag.Check());
  if (!finite.ok() && !video.redoes_chunk && !picture.request->chunk_fallbacks.empty()) {
    video.redoes_chunk = picture.decode_redone = true;
    picture.next = UnitKind::kDecode;
    part.ends_stage = false;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(finite);
  const int64_t count = part.pixels.shape()[0];
  for (int64_t i = 0; i < count; ++i) video.frames.push_back(FrameOf(part.pixels, i));
  video.decoded += static_cast<int>(count);
  video.redoes_chunk = false;
  part.ends_stage = video.decoded == picture.executed_size().frames;
  picture.next = part.ends_stage ? UnitKind::kDone : UnitKind::kDecode;
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
