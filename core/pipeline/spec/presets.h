// A Preset is how a kind of checkpoint has to be drawn with, where nothing in the checkpoint tells:
// a Turbo, Lightning or Hyper file has the keys, shapes and often the scheduler's file of the model
// that it was distilled from, and draws noise or burnt images with that one's defaults. LoRAs that
// make a checkpoint such a one bring it to the requests that name them.
//
// Figures are those of the cards; docs/models.md has the table and its sources.
//
// Rows are constants; functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

struct Preset {
  absl::string_view name;    // to operators: "lightning-4"
  absl::string_view family;  // the checkpoints': "sdxl"
  // Taken where a request leaves the field out.
  int steps = 0;
  absl::Span<const double> timesteps = {};  // instead of steps, where there are some
  double guidance_scale = 0;
  // The same of a checkpoint whose network is told it; absent: the family's.
  std::optional<double> told_guidance_scale = {};
  double eta = 0;
  std::optional<Size> size = {};  // trained at; absent: the checkpoint's own
  // A JSON object, laid over the checkpoint's scheduler_config.json; its _class_name is the
  // scheduler of requests that name none. Empty: the checkpoint's own.
  absl::string_view scheduler_config = {};

  // Values that draw something else than the checkpoint was made for: an answer warns of them.
  int most_steps = 0;           // 0: any number is fine
  bool exact_steps = false;     // no other number than `steps`
  double most_guidance = 0;     // 0: any is fine
  bool needs_trailing = false;  // timestep_spacing
};

// The names, in the order of the table, each once.
std::vector<std::string> PresetNames();

// INVALID_ARGUMENT, with the names that there are, unless a preset has that name.
absl::Status CheckPresetName(absl::string_view name);

// The preset of that name for checkpoints of that family; null for an empty name and for "none".
// INVALID_ARGUMENT: there is none, and which there are for the family.
absl::StatusOr<const Preset*> FindPreset(absl::string_view name, absl::string_view family);

// The preset that the name of a checkpoint's file or folder speaks of ("sdxl_lightning_4step");
// null: none. A guess, to tell an operator and for nothing else.
const Preset* GuessPreset(absl::string_view path, absl::string_view family);

// `defaults` with the preset's laid over; as they are without one. `is_told_guidance`: the
// checkpoint's network is told the guidance scale.
ModelDefaults WithPreset(ModelDefaults defaults, const Preset* preset, bool is_told_guidance);

// Facts of the checkpoint and of the schedule that it is drawn with.
struct DrawnBy {
  bool is_trailing = false;       // timestep_spacing is trailing, or has no effect
  bool is_told_guidance = false;  // the network is told the guidance scale, and any is fine
  absl::string_view made = "a checkpoint";  // or "an adapter": what is of the preset
};

// A sentence for each value of `resolved` that what is of the preset is not made for.
std::vector<std::string> FindMisuse(const Preset& preset, const PictureSpec& resolved,
                                    const DrawnBy& drawn);

}  // namespace latentd::pipeline
