// The models of a server by name. The table is made from the flags before anything is loaded, and
// its names never change, so that an id means the same model in every thread, and names are few.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/pipeline/spec/models/model_parts.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

struct Preset;  // presets.h

// A model by its place in the table.
struct ModelId {
  int value = 0;

  bool operator==(const ModelId&) const = default;
};

// Settings that an Effort stands for.
struct EffortSettings {
  GuidanceStop guidance_stop = GuidanceStop::kNever;
  int feature_cache_interval = 1;

  bool operator==(const EffortSettings&) const = default;
};

// Taken where a request leaves the field out; diffusers' own.
struct ModelDefaults {
  int steps = 50;
  absl::Span<const double> timesteps = {};  // instead of steps, where there are some; for ever
  double eta = 0;
  double guidance_scale = 5.0;
  double strength = 0.3;
  double mask_guidance_scale = 7.5;  // with a mask that is not differential, as the next
  double mask_strength = 1;
  double denoising_end = 0.8;  // the part after which it hands over
  int clip_skip_a1111 = 1;     // skips no layer that would be read
  // By Effort; each does what the one before leaves out, too (docs/performance.md has the losses).
  std::array<EffortSettings, 3> efforts = {
      {{}, {GuidanceStop::kAuto}, {GuidanceStop::kAuto, /*feature_cache_interval=*/3}}};

  const EffortSettings& of(Effort effort) const { return efforts[static_cast<size_t>(effort)]; }
};

// The place of a model's weights while no request wants it.
enum class Residency : uint8_t {
  kPinned,    // on the device from the start on; they never leave memory
  kReady,     // on the device from the start on, until others need the memory
  kOnDemand,  // in its files, until the first request; then as kReady
};

// A model that an operator names.
struct ModelSource {
  std::string name;
  std::string checkpoint;  // a single file, or a diffusers directory
  ModelParts parts = {};
  std::string preset = {};         // presets.h; empty: its family's defaults
  std::string scheduler = {};      // for requests that name none; empty: the checkpoint's own
  std::vector<Size> buckets = {};  // empty: the server's, or its own where there are none
  Residency residency = Residency::kReady;
  bool draws_videos = false;  // --video's
  int decode_chunk = 0;       // as a ModelRow's

  bool operator==(const ModelSource&) const = default;
};

// A model as it is known before its checkpoint is read.
struct ModelRow {
  ModelId id;
  std::string name;        // to requests, graphs, metrics and logs
  std::string flag;        // the flag that names its checkpoint: "base", "model=anime"
  std::string checkpoint;  // its file or directory
  ModelParts parts = {};
  std::string preset_name = {};
  std::string scheduler = {};      // for requests that name none; empty: the checkpoint's own
  std::vector<Size> buckets = {};  // empty: the server's, or its family's where there are none
  // The model that goes on from its latents, where a request asks to refine.
  std::optional<ModelId> hands_over_to;
  // Draws over images, and over latents that are handed over; not from noise alone.
  bool is_refiner = false;
  // The model that hands over to it; where it is no refiner, its own id.
  ModelId leader = {};
  Residency residency = Residency::kReady;
  bool is_placed = true;      // false: others of the server's devices have it (placement.h)
  bool has_room = true;       // false: not here, beside what is pinned, but on other devices
  bool draws_videos = false;  // draws them of an image, and nothing else
  // Frames of a video that are decoded together where a request does not say; 0: all.
  int decode_chunk = 0;

  // Facts of its family (core/families), once its checkpoint is opened.
  std::string family;  // "sdxl"
  bool has_refiners = true;
  ModelDefaults defaults;
  bool inpaints = false;           // its UNet draws into an image with a mask, and nothing else
  const Preset* preset = nullptr;  // the defaults are its; null: the family's
  Size default_size;               // for requests that set none
  std::string default_scheduler;   // by its short name; empty: requests have to name one
  int max_clip_skip = 0;           // hidden states that can be skipped in all text encoders

  // True: it is loaded here for the first request.
  bool is_on_demand() const { return residency == Residency::kOnDemand || !is_placed; }
  // True: it never leaves memory here.
  bool is_pinned() const { return residency == Residency::kPinned && is_placed; }
};

class ModelTable {
 public:
  // The rows that --base, --refiner and each --model make, in this order; without `base` the first
  // of `more` is the first. REQUIRES: there is one.
  static ModelTable FromFlags(const std::string& base, const std::string& refiner,
                              const std::vector<ModelSource>& more = {});

  // The model of that name, or the first one for an empty name; null: there is none.
  const ModelRow* Find(absl::string_view name) const;
  // REQUIRES: the id is of this table.
  const ModelRow& operator[](ModelId id) const { return rows_[static_cast<size_t>(id.value)]; }
  ModelRow& operator[](ModelId id) { return rows_[static_cast<size_t>(id.value)]; }
  // The first, for requests that name none.
  const ModelRow& first() const { return rows_.front(); }
  // As Find; the first where there is no such model.
  const ModelRow& FindOrFirst(absl::string_view name) const;
  // In the order of their ids.
  const std::vector<ModelRow>& rows() const { return rows_; }
  // Models that start pictures, each with those that it may hand over to.
  std::vector<ModelId> Leaders() const;
  std::vector<std::string> Names() const;
  std::vector<std::string> NamesOf(const std::vector<ModelId>& ids) const;

  // The models that draw such a request, in their order: the named one, and with `refine` the one
  // that it hands over to. Empty: there is no model of that name, or it hands over to none.
  std::vector<ModelId> Chain(absl::string_view name, bool refine) const;

 private:
  std::vector<ModelRow> rows_;
};

}  // namespace latentd::pipeline
