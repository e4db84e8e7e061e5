#include "core/pipeline/picture/picture.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/base/text/digest.h"
#include "core/pipeline/picture/preview.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

// Steps that read images of as many tokens of as many adapters are of one class: they take as long.
constexpr int kImageClasses = static_cast<int>(kMaxIpAdapters) * (kMaxImageTokensOfRequest + 1);

int ImageClassOf(const ImageTokens& tokens) {
  if (tokens.empty()) return 0;
  const int all = absl::c_accumulate(tokens, 0);
  return all * static_cast<int>(kMaxIpAdapters) + static_cast<int>(tokens.size()) - 1;
}

// Tells apart those of one class, of which there are several with several adapters.
uint64_t WithTokens(uint64_t set, const ImageTokens& tokens) {
  if (tokens.size() < 2) return set;
  return DigestOf(absl::StrCat(set, " image ", absl::StrJoin(tokens, " "))).low | 1;
}

}  // namespace

Request::Request(SharedPlan planned, SharedInputs brought,
                 const std::vector<const LoadedModel*>& models)
    : plan(std::move(planned)), inputs(std::move(brought)), conditioning(models.size()) {
  for (size_t i = 0; i < models.size(); ++i) stages.emplace_back(plan->stages[i], *models[i]);
  if (spec().previews_every) colors = KnownColors(plan->last_model().vae());
}

void Picture::Advance() {
  ++unit;
  next = unit < plan().units.size() ? plan().units[unit].kind : UnitKind::kDone;
}

int Picture::RowsAt(size_t index, size_t line) const {
  const std::vector<int>& rows = plan().stages[index].rows;
  if (line >= rows.size()) return 1;
  return guidance.HasStopped(plan().first_evaluation(index) + line) ? 1 : rows[line];
}

int Picture::next_rows() const { return RowsAt(stage_index, evaluation); }

bool Picture::next_is_shallow() const {
  const std::vector<bool>& shallow = stage().planned.shallow;
  return evaluation < shallow.size() && shallow[evaluation];
}

int Picture::skipped_rows() const {
  const std::vector<int>& rows = stage().planned.rows;
  return evaluation < rows.size() ? rows[evaluation] - next_rows() : 0;
}

int Picture::guidance_stopped_after() const {
  for (size_t index = 0; index < plan().stages.size(); ++index) {
    const PlannedStage& planned = plan().stages[index];
    for (size_t line = 0; line < planned.rows.size(); ++line) {
      if (RowsAt(index, line) == planned.rows[line]) continue;
      return planned.first_step + planned.schedule.steps[line].denoising_index;
    }
  }
  return 0;
}

int Picture::rows_ahead() const { return StepsAhead(stage_index).most_rows(); }

void Picture::AddHelper(int device, const Picture& there) {
  PictureHelper& helper = helped_by.emplace_back(PictureHelper{.device = device});
  for (const Stage& stage : there.request->stages) helper.networks.push_back(stage.network);
}

ExecutablePointer Picture::NetworkOn(int device) const {
  const auto found = absl::c_find_if(
      helped_by, [&](const PictureHelper& helper) { return helper.device == device; });
  return found == helped_by.end() ? nullptr : found->networks[stage_index].lock();
}

uint64_t Picture::helpers() const {
  uint64_t devices = 0;
  const bool can_split = stage().network != nullptr && stage().advance != nullptr;
  if (next != UnitKind::kStep || next_rows() != 2 || !can_split) return devices;
  for (const PictureHelper& helper : helped_by) {
    if (!helper.networks[stage_index].expired()) devices |= uint64_t{1} << helper.device;
  }
  return devices;
}

bool Picture::EncodesText(size_t index) const {
  return plan().stages[index].reads_text() && !request->conditioning[index].has_value();
}

void Picture::LeaveLane() {
  place.reset();
  path.reset();
  path_values.clear();
  helper_row.reset();
  has_residuals = false;
}

bool Picture::has_preview() const {
  const bool steps =
      next == UnitKind::kText || next == UnitKind::kEncode || next == UnitKind::kStep;
  return prediction.step > 0 && steps;
}

Lane Picture::lane() const { return LaneOf(stage().planned); }

Lane Picture::LaneOf(const PlannedStage& stage) const {
  const ModelId model = stage.model->row().id;
  const int chunks = stage.chunks();
  const Size size = executed_size();
  // A network that reads another number of chunks is another one, and so are one that reads what
  // control networks add, one that reads an image of so many tokens, one that gives deep features
  // and reads them, and one whose rows have paths, whatever these are. A picture that takes no
  // steps needs no room beside others.
  const bool apart = plan().alone || plan().spec.output_embeds;
  const bool is_first = &stage == &plan().stages.front();
  const bool controlled = is_first && !plan().controls.empty();
  const bool has_paths = is_first && plan().ranks > 0;
  const ImageTokens tokens = is_first ? plan().image_tokens() : ImageTokens();
  const int own = 4 * (model.value * prompts::kMaxChunks + chunks - 1) + (stage.caches() ? 2 : 0) +
                  (controlled ? 1 : 0);
  const int network = own * kImageClasses + ImageClassOf(tokens);
  return {.network = has_paths ? -1 - network : network,
          .width = size.width,
          .height = size.height,
          .frames = size.frames,
          .adapters = WithTokens(is_first && !has_paths ? plan().loras : 0, tokens),
          .only = apart ? reinterpret_cast<uintptr_t>(this) : 0};
}

batching::Ahead Picture::ahead() const {
  batching::Ahead ahead;
  ahead.stages.front().lane = lane();
  if (next == UnitKind::kDone) return ahead;
  for (const PlannedUnit& one : absl::MakeConstSpan(plan().units).subspan(unit)) {
    if (one.kind == UnitKind::kStep || one.kind == UnitKind::kText) {
      ahead.stages[one.stage - stage_index] = StepsAhead(one.stage);
    } else {
      OthersAhead(one.kind, ahead);
    }
  }
  return ahead;
}

void Picture::OthersAhead(UnitKind kind, batching::Ahead& ahead) const {
  auto& others = batching::FollowsSteps(kind) ? ahead.after : ahead.before;
  if (video == nullptr) return others.push_back(kind);
  if (kind != UnitKind::kDecode) {
    others.push_back(kind);
    others.back().is_own = true;
    return;
  }
  const VideoSpec& spec = *plan().spec.video;
  for (int done = video->decoded; done < *spec.num_frames; done += ChunkAt(spec, done)) {
    const bool is_next = done == video->decoded;
    const int frames = ChunkAt(spec, done);
    const int parts = is_next && video->redoes_chunk ? 1 : DecoderPartsOf(plan(), frames);
    const batching::OtherUnit part(kind, WorkOfPart(frames, parts));
    others.insert(others.end(), parts - (is_next ? video->parts_done : 0), part);
  }
}

batching::Ahead::Stage Picture::StepsAhead(size_t index) const {
  const PlannedStage& planned = plan().stages[index];
  batching::Ahead::Stage ahead = {.lane = LaneOf(planned),
                                  .text = EncodesText(index) ? planned.text_times() : 0,
                                  .previews = PreviewsAhead(*this, index)};
  const size_t done = index == stage_index ? evaluation : 0;
  for (size_t line = done; line < planned.rows.size(); ++line) {
    const int rows = RowsAt(index, line);
    if (ahead.runs.empty() || ahead.runs.back().rows != rows) ahead.runs.push_back({0, rows});
    ++ahead.runs.back().count;
    if (planned.caches() && planned.shallow[line]) ++ahead.runs.back().shallow;
  }
  return ahead;
}

}  // namespace latentd::pipeline
