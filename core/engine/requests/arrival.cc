#include "core/engine/requests/arrival.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline/spec/fields.h"
#include "core/pipeline/spec/video_fields.h"

namespace latentd::engine {
namespace {

template <typename T>
const T& Hashable(const T& value) {
  return value;
}

auto Hashable(const pipeline::Size& size) {
  return std::tuple(size.width, size.height, size.frames);
}
auto Hashable(const pipeline::Offset& offset) { return std::pair(offset.top, offset.left); }
auto Hashable(const pipeline::GuidanceInterval& part) { return std::pair(part.start, part.stop); }

std::string Hashable(const std::vector<pipeline::Adapter>& adapters) {
  std::string text;
  for (const pipeline::Adapter& adapter : adapters) {
    absl::StrAppend(&text, adapter.name, "\n", adapter.unet_factor(), "\n", adapter.text_factor(),
                    "\n");
  }
  return text;
}

std::string Hashable(const std::vector<pipeline::Control>& controls) {
  std::string text;
  for (const pipeline::Control& control : controls) {
    absl::StrAppend(&text, control.name, "\n", control.scale.value_or(1), "\n",
                    control.start.value_or(0), "\n", control.end.value_or(1), "\n",
                    control.mode.value_or(-1), "\n");
  }
  return text;
}

std::string Hashable(const std::vector<pipeline::ImagePrompt>& prompts) {
  std::string text;
  for (const pipeline::ImagePrompt& prompt : prompts) {
    absl::StrAppend(&text, prompt.name, "\n", prompt.scale.value_or(1), "\n", TextOf(prompt.scales),
                    "\n");
  }
  return text;
}

template <typename T>
auto Hashable(const std::optional<T>& value) {
  return std::pair(value.has_value(), Hashable(value.value_or(T())));
}

void Add(const std::optional<pipeline::HostTensor>& tensor, uint64_t& content) {
  if (!tensor) return;
  content = absl::HashOf(content, tensor->type, tensor->shape, tensor->data);
}

uint64_t ContentOf(const pipeline::Inputs& inputs, uint64_t content) {
  content = absl::HashOf(content, inputs.image, inputs.mask_image, inputs.latents,
                         inputs.control_images, inputs.ip_adapter_images);
  for (const std::optional<pipeline::HostTensor>& embeds : inputs.ip_adapter_embeds) {
    content = absl::HashOf(content, embeds.has_value());
    Add(embeds, content);
  }
  for (const pipeline::Embeds* embeds : {&inputs.prompt, &inputs.negative}) {
    content = absl::HashOf(content, embeds->states.has_value(), embeds->pooled.has_value());
    Add(embeds->states, content);
    Add(embeds->pooled, content);
  }
  return content;
}

void AddFields(const std::vector<pipeline::Field>& fields, const pipeline::PictureSpec& asked,
               uint64_t& content) {
  for (const pipeline::Field& field : fields) {
    VisitField(field, asked,
               [&](const auto& value) { content = absl::HashOf(content, Hashable(value)); });
  }
}

}  // namespace

uint64_t ContentOf(const GenerateSpec& spec) {
  const pipeline::PictureSpec& asked = spec.picture;
  const image::EncodeOptions& output = spec.output;
  uint64_t content = absl::HashOf(output.format, output.quality, output.embed_parameters,
                                  asked.scheduler.config, Hashable(asked.output_embeds));
  if (const auto& file = spec.video_file) {
    content = absl::HashOf(content, file->format, file->quality, file->playback_fps,
                           file->embed_parameters);
  }
  if (spec.inputs != nullptr) content = ContentOf(*spec.inputs, content);
  AddFields(asked.video ? pipeline::VideoFields() : pipeline::Fields(), asked, content);
  return content;
}

batching::Need NeedOf(const pipeline::Picture& picture) {
  return {.kind = picture.next,
          .lane = picture.lane(),
          .lane_rows = picture.most_rows(),
          .lane_capacity = picture.place ? picture.place->lane()->capacity() : batching::kMostRows,
          .lane_places = picture.place ? picture.place->lane()->rows() : picture.lane_rows(),
          .joined = picture.place.has_value(),
          .shallow = picture.next_is_shallow(),
          .preview = picture.has_preview(),
          .helpers = picture.helpers(),
          .ahead = picture.ahead()};
}

batching::Need WaitingNeedOf(const pipeline::Picture& picture) {
  batching::Need need = NeedOf(picture);
  need.kind = batching::UnitKind::kWait;
  return need;
}

batching::Arrival ArrivalOf(const Job& job, size_t image_bytes) {
  return {.pictures = job.ids,
          .need = job.pictures.empty() ? job.need : NeedOf(*job.pictures.front()),
          .bytes = image_bytes,
          .caller = job.spec.caller,
          .priority = job.spec.priority,
          .deadline = job.spec.deadline,
          .content = job.content,
          .devices = job.devices};
}

batching::Limits LimitsOf(batching::Limits limits, const PictureBytes& bytes) {
  limits.bytes = static_cast<size_t>(bytes.most_inputs());
  limits.bytes_with_results = static_cast<size_t>(bytes.budget());
  limits.result_bytes = [&bytes] { return static_cast<size_t>(bytes.results()); };
  return limits;
}

void SetProspect(const batching::Prospect& prospect, Queued& queued) {
  queued.position = prospect.position;
  if (!prospect.outlook.known) return;
  queued.wait = prospect.outlook.begins;
  queued.total = prospect.outlook.ends;
}

}  // namespace latentd::engine
