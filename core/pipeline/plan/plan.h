// A Plan is everything that a request needs, worked out once when the request is resolved: its
// settings, schedules, units in order, graphs and memory. Admission, preparation, forecasts, lanes
// and units read it, so that the question is answered in one place.
//
// Immutable, and shared by the images of the request. Any device draws it: graphs are named by
// model and shape, and each device's pipeline (Pipeline::Start) finds its own. The models that it
// points to are those of the pipeline that made it, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "core/batching/predict/unit.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/schedulers/config.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {

using batching::UnitKind;

// The steps of one model.
struct PlannedStage {
  const LoadedModel* model = nullptr;  // for facts, which are every device's
  schedulers::SchedulerConfig scheduler;
  schedulers::Schedule schedule;
  // Rows of an image's evaluations, by the lines of the schedule; at most, with guidance_stop.
  std::vector<int> rows;
  // Evaluations that read the deep features of the last one that did not, likewise; empty: none
  // does.
  std::vector<bool> shallow;
  // An image's rows, in order: the negative prompt's where there is guidance, the prompt's.
  // All have as many chunks.
  std::vector<families::RowInputs> prompts;

  int chunks() const { return prompts.front().chunks; }
  // True if text encoders run: some row is neither embeddings nor zeros.
  bool reads_text() const {
    return absl::c_any_of(prompts,
                          [](const families::RowInputs& row) { return !row.text.empty(); });
  }
  // Runs of masked text graphs.
  int64_t blends() const;
  // Time that its text takes, in that of a stage without blends, rounded up.
  int text_times() const;
  // True if some row reads embeddings of the request in place of a prompt.
  bool reads_embeds() const {
    return absl::c_any_of(prompts, [](const families::RowInputs& row) {
      return row.embeds != families::RowEmbeds::kNone;
    });
  }
  // True if its prompts have words of textual inversions.
  bool takes_vectors() const {
    return absl::c_any_of(prompts, [](const families::RowInputs& row) { return row.has_words; });
  }
  bool caches() const { return !shallow.empty(); }
  int first_step = 0;  // steps, as users count them, of the stages before

  int most_rows() const { return static_cast<int>(prompts.size()); }
};

struct PlannedGraph {
  ModelId model;
  GraphName name;
  // Id of the network beside the model whose it is, of a PlannedControl or a PlannedImagePrompt; 0:
  // the model's own.
  uint64_t net = 0;

  bool operator==(const PlannedGraph&) const = default;
};

// A unit of work (units.h), or for kStep all evaluations of a stage.
struct PlannedUnit {
  UnitKind kind;
  size_t stage = 0;
};

// A ControlNet over the first stage's model (core/pipeline/graphs/control_nets.h).
struct PlannedControl {
  uint64_t id = 0;             // ControlNets::IdOf
  std::vector<double> scales;  // factors in the stage's evaluations; 0: it rests
};

// An IP-Adapter over the first stage's model (core/pipeline/graphs/ip_adapters.h).
struct PlannedImagePrompt {
  uint64_t id = 0;   // IpAdapters::IdOf
  size_t index = 0;  // among the spec's
  int images = 1;
  int tokens = 0;       // tokens that its images become
  bool encodes = true;  // false: the request brings all that an image encoder would give
};

struct Plan {
  ImageTokens image_tokens() const;
  bool guided() const { return rows > 1; }
  // Numbers of rows that evaluations have.
  std::set<int> row_counts() const;
  // True if evaluations of one row come beside guided ones, or may.
  bool may_end_guidance() const;
  // Number of a stage's first evaluation, of all stages'; of the one behind the last: of all.
  size_t first_evaluation(size_t stage) const;
  int total_steps() const;  // steps as users count them, of all stages
  int chunks() const;       // chunks of prompts, of the stage that has most
  // Tokens of the longest prompt; and those of one that no text encoder reads, at most.
  int64_t prompt_tokens() const;
  int64_t dropped_tokens() const;
  int64_t blends() const;  // runs of masked text graphs, of all stages
  // True if tokens of some prompt have other weights than 1.
  bool has_weights() const;
  // Model whose latents become the images.
  const LoadedModel& last_model() const { return *stages.back().model; }
  // Size of the images as they are sent.
  Size picture_size() const { return whole_size.value_or(Size{*spec.width, *spec.height}); }
  // True if the images have previews that a tiny VAE would draw.
  bool wants_tiny_vae() const;
  // True if steps of some stage read deep features.
  bool caches() const;
  // True if two devices could share steps of the images.
  bool may_split() const;

  PictureSpec spec;                // resolved
  Size executed_size;              // size that the networks run at; the images are its centre
  std::optional<Size> whole_size;  // the init image's, into which a crop that is drawn is put back
  LatentSize latents;              // executed_size in latents
  LatentSize image_latents;        // the images' own size in latents
  int rows = 1;                    // rows of each image, at most: 2 with guidance
  bool alone = false;  // its images share steps with no other, not with each other either
  // Names the set of adapters over the first stage's model (AdapterSets::IdOf), its ControlNets and
  // IP-Adapters among them; 0: there are none.
  uint64_t adapters = 0;
  uint64_t loras = 0;  // likewise, of its LoRAs alone
  // The preset that one of its adapters brings, which counts before the first stage's model's;
  // null: none does.
  const Preset* preset = nullptr;
  // Ranks of the low-rank paths that rows of the first stage have for that set; 0: none.
  int ranks = 0;
  std::vector<PlannedControl> controls;  // in the spec's order
  // IP-Adapters that have an effect, by their tokens, the fewest first, as steps read them; those
  // of as many by what they are, whatever their order in the spec.
  std::vector<PlannedImagePrompt> image_prompts;
  std::vector<PlannedStage> stages;  // an ensemble has two
  std::vector<PlannedUnit> units;    // in order; previews come beside them
  std::vector<PlannedGraph> graphs;  // each once
  // Graphs that the images are drawn without where they are not ready: of steps that are shared by
  // more rows or by two devices, and of previews.
  std::vector<PlannedGraph> dispensable;
  // Bytes that its images hold while they run, beside weights, executables, arena and lane.
  int64_t state_bytes = 0;
  // A sentence for each parameter of the request that has no effect on its images, and for each
  // value that its models are not made for.
  std::vector<std::string> warnings;
};
using SharedPlan = std::shared_ptr<const Plan>;

// Kinds of steps that images have whose stage caches deep features, or does not.
std::vector<DeepFeatures> DepthsOf(bool caches);

// Facts that decide which graphs images need.
struct GraphNeeds {
  std::vector<const LoadedModel*> models;  // in the order of their stages
  std::vector<int> chunks;                 // chunks of their prompts
  std::vector<bool> text = {};             // their text encoders run; empty: all
  // Their prompts have vectors in the place of tokens'; empty: none has.
  std::vector<bool> takes_vectors = {};
  std::vector<bool> blends = {};  // their text encoders run with masks too; empty: none does
  int height = 0, width = 0;      // size of the latents
  std::vector<int> rows;          // numbers of rows of their steps by themselves
  int ranks = 0;                  // ranks of paths of the first one's steps
  bool controlled = false;        // the first one's steps read what control networks add
  ImageTokens image_tokens = {};  // tokens of the images that these steps read
  std::vector<bool> caches = {};  // their steps are full and shallow ones; empty: of none
  bool image = false;             // image-to-image
  bool steps = true;              // else nothing runs but the text encoders
  bool decoded = true;            // pixels are wanted
};

// Graphs that such images cannot be drawn without, each once: those of the stages, in order, then
// what reads the init image with the first model and what makes pixels with the last.
std::vector<PlannedGraph> GraphsFor(const GraphNeeds& needs);

// True if memory for `larger` is enough for `smaller`: of each of its graphs there is
// another one in `larger` that is as large; where not `grows`, of the same size.
bool Covers(absl::Span<const PlannedGraph> larger, absl::Span<const PlannedGraph> smaller,
            bool grows);

// Gives evaluations that are guided a row for each of the stage's prompts, and one the others;
// steps of all stages are counted together, as users do, those that are run only.
void PlanRows(const GuidanceInterval& interval, std::vector<PlannedStage>& stages);

// Makes evaluations shallow by the interval of feature_cache_interval, of all stages together: not
// those in the first three tenths, in which the image is composed, nor the last two, in which its
// details are; else all but every so many-th behind one that is not. The first of a stage and
// one with more rows than the one before have no features to read. REQUIRES: rows are planned.
void PlanShallow(int interval, std::vector<PlannedStage>& stages);

// The units of images with these stages, in order.
std::vector<PlannedUnit> UnitsFor(size_t stages, bool image, bool decoded);

}  // namespace latentd::pipeline
