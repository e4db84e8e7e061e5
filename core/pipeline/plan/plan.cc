#include "core/pipeline/plan/plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace latentd::pipeline {
namespace {

// Collects graphs of one model and size.
class GraphList {
 public:
  explicit GraphList(const GraphNeeds& needs) : needs_(needs) {}

  void AddStage(const LoadedModel* model, int chunks, bool is_first, bool caches) {
    if (!needs_.steps) return;
    const ModelId id = model->row().id;
    all_.push_back({id, {.kind = GraphKind::kRequest, .shape = {.chunks = chunks}}});
    GraphName step = {.shape = {.height = needs_.height,
                                .width = needs_.width,
                                .chunks = chunks,
                                .ranks = is_first ? needs_.ranks : 0,
                                .image_tokens = is_first ? needs_.image_tokens : ImageTokens()},
                      .controlled = is_first && needs_.controlled};
    for (int rows : needs_.rows) {
      step.shape.rows = rows;
      for (const DeepFeatures deep : DepthsOf(caches)) {
        step.shape.deep = deep;
        all_.push_back({id, step});
      }
    }
  }
  void AddText(const LoadedModel* model, GraphKind kind, bool takes_vectors) {
    for (int encoder = 0; encoder < model->graphs().text_count(); ++encoder) {
      all_.push_back(
          {model->row().id, {.kind = kind, .encoder = encoder, .takes_vectors = takes_vectors}});
    }
  }
  void Add(const LoadedModel* model, GraphKind kind) {
    all_.push_back({model->row().id, {kind, {1, needs_.height, needs_.width}}});
  }

  std::vector<PlannedGraph> Take() { return std::move(all_); }

 private:
  const GraphNeeds& needs_;
  std::vector<PlannedGraph> all_;
};

bool IsAsLarge(const PlannedGraph& larger, const PlannedGraph& smaller, bool grows) {
  if (!grows || larger.model != smaller.model || larger.name.kind != smaller.name.kind ||
      larger.name.encoder != smaller.name.encoder ||
      larger.name.takes_vectors != smaller.name.takes_vectors ||
      larger.name.controlled != smaller.name.controlled || larger.name.part != smaller.name.part ||
      larger.net != smaller.net || larger.name.shape.deep != smaller.name.shape.deep ||
      larger.name.shape.image_tokens != smaller.name.shape.image_tokens) {
    return larger == smaller;
  }
  const StepShape &a = larger.name.shape, &b = smaller.name.shape;
  return a.rows >= b.rows && a.height >= b.height && a.width >= b.width && a.chunks >= b.chunks &&
         a.ranks >= b.ranks && a.frames >= b.frames;
}

int64_t MostOf(const Plan& plan, int64_t families::RowInputs::*count) {
  int64_t most = 0;
  for (const PlannedStage& stage : plan.stages) {
    for (const families::RowInputs& row : stage.prompts) most = std::max(most, row.*count);
  }
  return most;
}

// Runs of a stage's text encoders, of all chunks.
struct TextRuns {
  int64_t plain = 0, blends = 0;
};

TextRuns RunsOf(const PlannedStage& stage) {
  TextRuns runs;
  for (const families::RowInputs& row : stage.prompts) {
    for (const families::TextInputs& text : row.text) {
      runs.plain += static_cast<int64_t>(text.chunks.size());
      for (const families::TextChunk& chunk : text.chunks) {
        runs.blends += static_cast<int64_t>(chunk.blends.size());
      }
    }
  }
  return runs;
}

}  // namespace

int64_t PlannedStage::blends() const { return RunsOf(*this).blends; }

int PlannedStage::text_times() const {
  const TextRuns runs = RunsOf(*this);
  return runs.plain == 0 ? 1 : static_cast<int>((2 * runs.plain + runs.blends - 1) / runs.plain);
}

ImageTokens Plan::image_tokens() const {
  ImageTokens tokens;
  for (const PlannedImagePrompt& prompt : image_prompts) tokens.push_back(prompt.tokens);
  return tokens;
}

std::set<int> Plan::row_counts() const {
  std::set<int> counts;
  for (const PlannedStage& stage : stages) counts.insert(stage.rows.begin(), stage.rows.end());
  return counts;
}

bool Plan::may_end_guidance() const {
  return guided() && (spec.guidance_stop == GuidanceStop::kAuto || row_counts().contains(1));
}

size_t Plan::first_evaluation(size_t stage) const {
  size_t number = 0;
  for (size_t i = 0; i < stage; ++i) number += stages[i].rows.size();
  return number;
}

int Plan::total_steps() const {
  return stages.back().first_step + stages.back().schedule.denoising_steps();
}

int Plan::chunks() const {
  int most = 1;
  for (const PlannedStage& stage : stages) most = std::max(most, stage.chunks());
  return most;
}

int64_t Plan::blends() const {
  int64_t count = 0;
  for (const PlannedStage& stage : stages) count += stage.blends();
  return count;
}

int64_t Plan::prompt_tokens() const { return MostOf(*this, &families::RowInputs::tokens); }

int64_t Plan::dropped_tokens() const { return MostOf(*this, &families::RowInputs::dropped_tokens); }

bool Plan::has_weights() const {
  return absl::c_any_of(stages, [](const PlannedStage& stage) {
    return absl::c_any_of(stage.prompts, [](const families::RowInputs& row) {
      return absl::c_any_of(row.text, [](const families::TextInputs& text) {
        return absl::c_any_of(text.chunks, [](const families::TextChunk& chunk) {
          return chunk.origin != families::EmphasisOrigin::kPrompt;
        });
      });
    });
  });
}

bool Plan::wants_tiny_vae() const {
  return absl::c_any_of(dispensable, [](const PlannedGraph& graph) {
    return graph.name.kind == GraphKind::kPreview;
  });
}

bool Plan::caches() const {
  return absl::c_any_of(stages, [](const PlannedStage& stage) { return stage.caches(); });
}

bool Plan::may_split() const {
  return absl::c_any_of(dispensable, [](const PlannedGraph& graph) {
    return graph.name.kind == GraphKind::kAdvance;
  });
}

std::vector<DeepFeatures> DepthsOf(bool caches) {
  if (!caches) return {DeepFeatures::kNone};
  return {DeepFeatures::kGiven, DeepFeatures::kRead};
}

std::vector<PlannedGraph> GraphsFor(const GraphNeeds& needs) {
  GraphList graphs(needs);
  for (size_t i = 0; i < needs.models.size(); ++i) {
    const LoadedModel* model = needs.models[i];
    const auto has = [i](const std::vector<bool>& flags, bool otherwise) {
      return flags.empty() ? otherwise : flags[i];
    };
    const bool takes_vectors = has(needs.takes_vectors, false);
    if (has(needs.text, true)) graphs.AddText(model, GraphKind::kText, takes_vectors);
    if (has(needs.blends, false)) graphs.AddText(model, GraphKind::kMaskedText, takes_vectors);
    graphs.AddStage(model, needs.chunks[i], /*is_first=*/i == 0, has(needs.caches, false));
  }
  const LoadedModel *first = needs.models.front(), *last = needs.models.back();
  if (needs.image) {
    graphs.Add(first, GraphKind::kEncode);
    graphs.Add(first, GraphKind::kSample);
  }
  if (needs.decoded) {
    graphs.Add(last, GraphKind::kDecode);
    if (last->graphs().has_decode_fallback()) graphs.Add(last, GraphKind::kDecodeFallback);
  }
  return graphs.Take();
}

bool Covers(absl::Span<const PlannedGraph> larger, absl::Span<const PlannedGraph> smaller,
            bool grows) {
  std::vector<PlannedGraph> left(larger.begin(), larger.end());
  return absl::c_all_of(smaller, [&](const PlannedGraph& graph) {
    const auto found = absl::c_find_if(
        left, [&](const PlannedGraph& other) { return IsAsLarge(other, graph, grows); });
    if (found == left.end()) return false;
    left.erase(found);
    return true;
  });
}

// As _is_cfg_enabled of diffusers' ClassifierFreeGuidance counts, but that the two evaluations of a
// step of Heun's method are one step.
void PlanRows(const GuidanceInterval& interval, std::vector<PlannedStage>& stages) {
  const PlannedStage& last = stages.back();
  const int total = last.first_step + last.schedule.denoising_steps();
  const int begin = static_cast<int>(interval.start * total);
  const int end = static_cast<int>(interval.stop * total);
  for (PlannedStage& stage : stages) {
    for (const schedulers::StepCoefficients& line : stage.schedule.steps) {
      const int step = stage.first_step + line.denoising_index;
      stage.rows.push_back(step >= begin && step < end ? stage.most_rows() : 1);
    }
  }
}

void PlanShallow(int interval, std::vector<PlannedStage>& stages) {
  constexpr size_t kLast = 2;
  size_t all = 0, number = 0;
  for (const PlannedStage& stage : stages) all += stage.rows.size();
  const size_t begin = (3 * all + 9) / 10, end = all - std::min(all, kLast);
  for (PlannedStage& stage : stages) {
    int since = 0;  // evaluations since the last that is full
    for (size_t line = 0; line < stage.rows.size(); ++line, ++number) {
      const bool may_read = line > 0 && stage.rows[line] <= stage.rows[line - 1];
      const bool is_shallow = may_read && number >= begin && number < end && since + 1 < interval;
      stage.shallow.push_back(is_shallow);
      since = is_shallow ? since + 1 : 0;
    }
    if (!absl::c_linear_search(stage.shallow, true)) stage.shallow.clear();
  }
}

std::vector<PlannedUnit> UnitsFor(size_t stages, bool image, bool decoded) {
  std::vector<PlannedUnit> units;
  for (size_t stage = 0; stage < stages; ++stage) {
    units.push_back({UnitKind::kText, stage});
    if (image && stage == 0) units.push_back({UnitKind::kEncode, stage});
    units.push_back({UnitKind::kStep, stage});
  }
  if (decoded) units.push_back({UnitKind::kDecode, stages - 1});
  return units;
}

}  // namespace latentd::pipeline
