// A Family is a kind of checkpoint: the classes of its pipelines in diffusers, its defaults, which
// fields of a request it reads, and what its networks read of prompts and settings. Everything else
// about drawing is core/pipeline's, and the same for all families.
//
// Rows are constants; their functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/families/family/model_configs.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/networks/unet_2d_condition.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/pipeline/spec/unused_parameters.h"
#include "core/prompts/blends.h"
#include "core/schedulers/config.h"
#include "core/weights/containers/checkpoint.h"

namespace latentd::families {

// The name of a graph's input, and its value.
struct HostInput {
  std::string name;
  std::variant<std::vector<int64_t>, std::vector<float>> values;
};

struct VideoFamily;  // video_family.h

// Inputs of one run of a text graph.
using TextRun = std::vector<HostInput>;

// State of a text encoder that weights of tokens move the prompt's away from.
enum class EmphasisOrigin : uint8_t {
  kPrompt,  // itself: there are no weights
  kZeros,
  kEmpty,  // the empty prompt's
};

// One chunk of a prompt (core/prompts/chunks.h).
struct TextChunk {
  TextRun run;
  EmphasisOrigin origin = EmphasisOrigin::kPrompt;
  std::vector<prompts::Blend> blends;  // runs of the masked text graph behind that
};

// A text graph of an encoder.
struct TextVariant {
  // Runs after one that is not, for each of a chunk's blends, and gives the state of both together.
  bool masked = false;
  bool takes_vectors = false;  // tokens may have vectors of their own
};

// A row's prompt for one text graph.
struct TextInputs {
  std::vector<TextChunk> chunks;
  TextRun empty;  // the empty prompt's
};

// Embeddings of a request (core/pipeline/spec/request/inputs.h) that a row reads in place of a
// prompt.
enum class RowEmbeds : uint8_t { kNone, kPrompt, kNegative };

// Host inputs of one row of an image.
struct RowInputs {
  // By text graph, as many chunks for each. Empty: none runs, and all that they would give are the
  // embeddings, or zeros.
  std::vector<TextInputs> text;
  RowEmbeds embeds = RowEmbeds::kNone;
  int chunks = 1;
  // Inputs of the request graph, beside the results of the text graphs.
  std::vector<HostInput> request;
  int64_t tokens = 0;          // tokens of the longest prompt
  int64_t dropped_tokens = 0;  // tokens of one that no text encoder reads, at most
  // Words of textual inversions are in its prompts: they are for text graphs that take vectors.
  bool has_words = false;
};

// A component of a family's checkpoints, and what it can be.
struct FamilyComponent {
  absl::string_view name;                            // in model_index.json
  absl::string_view library;                         // the library of its class
  absl::Span<const absl::string_view> classes = {};  // empty: whatever it is
  bool is_required = false;                          // else an error where it is used
};

struct Family {
  absl::string_view name;   // to programs: "sdxl"
  absl::string_view title;  // to people: "Stable Diffusion XL"
  // Beginning of the names of diffusers' pipelines for it: "StableDiffusionXL".
  absl::string_view class_prefix;
  // True if it draws over images, and over latents that are handed over; not from noise alone.
  bool starts_from_image = false;
  const Family* hands_over_to = nullptr;  // family of its refiners; null: it has none
  // Components that it draws with, the noise scheduler aside.
  absl::Span<const FamilyComponent> components;
  pipeline::ModelDefaults defaults;
  int64_t sample_side = 0;  // trained at so many latents a side, where config.json does not say
  // Sizes to have ready for a model that was trained at the first of them.
  absl::Span<const pipeline::Size> sizes;
  // Noise levels that Align Your Steps found for it, or for what is nearest to it.
  schedulers::AlignYourStepsTable align_your_steps = schedulers::AlignYourStepsTable::kSdxl;

  // Checks what is this family's alone. Errors name the file at fault. A family of videos has none
  // of these, nor of those below that are of prompts.
  absl::Status (*check)(const weights::Checkpoint& checkpoint, const ModelConfigs& configs);
  // Fields of a request that it reads.
  pipeline::ModelReads (*reads)(const ModelConfigs& configs);
  // The largest clip_skip that its text encoders allow.
  int (*max_clip_skip)(const ModelConfigs& configs);

  // The graph of a text encoder. Its outputs are inputs of the request graph under their names, one
  // row each, and "finite" u8 [1]; a masked one has no pooled state.
  absl::StatusOr<graph::Graph> (*text_graph)(const ModelConfigs& configs, size_t encoder,
                                             const TextVariant& variant);
  // Inputs of its UNets, and of their ControlNets beside a hint, for rows of latents and so many
  // chunks of prompts. Adds the inputs of Rate::kRequest among it.
  networks::Unet2dConditionInputs (*network_inputs)(graph::GraphBuilder& builder,
                                                    const ModelConfigs& configs,
                                                    graph::Value latents, graph::Value timestep,
                                                    int chunks);
  // The network's prediction for rows of latents, from so many chunks of prompts. Adds the inputs
  // of Rate::kRequest that it reads.
  graph::Value (*predict)(graph::GraphBuilder& builder, const ModelConfigs& configs,
                          graph::Value latents, graph::Value timestep, int chunks);
  // Inputs of the row of the prompt, or of the negative prompt. `resolved` has every default.
  // INVALID_ARGUMENT names the field of a prompt that cannot be read.
  absl::StatusOr<RowInputs> (*row)(const ModelConfigs& configs,
                                   const pipeline::PictureSpec& resolved, bool negative);

  const VideoFamily* videos = nullptr;  // null: it draws images
};

}  // namespace latentd::families
