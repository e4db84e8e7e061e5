// The models of a server by name. The table is made from the flags before anything is loaded, and
// its names never change, so that an id means the same model in every thread, and names are few.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::pipeline {

struct Preset;  // presets.h

// A model by its place in the table.
struct ModelId {
  int value = 0;

  bool operator==(const ModelId&) const = default;
};

// Taken where a request leaves the field out; diffusers' own.
struct ModelDefaults {
  int steps = 50;
  absl::Span<const double> timesteps = {};  // instead of steps, where there are some; for ever
  double eta = 0;
  double guidance_scale = 5.0;
  double strength = 0.3;
  double mask_guidance_scale = 7.5;  // with a mask, as the next
  double mask_strength = 1;
  double denoising_end = 0.8;  // the part after which it hands over
  int clip_skip_a1111 = 1;     // skips no layer that would be read
};

// A model as it is known before its checkpoint is read.
struct ModelRow {
  ModelId id;
  std::string name;        // to requests, graphs, metrics and logs; its flag is "--" and this
  std::string checkpoint;  // its directory
  // The model that goes on from its latents, where a request asks to refine.
  std::optional<ModelId> hands_over_to;
  // Draws over images, and over latents that are handed over; not from noise alone.
  bool is_refiner = false;

  // Facts of its family (core/families), once its checkpoint is opened.
  std::string family;  // "sdxl"
  bool has_refiners = true;
  ModelDefaults defaults;
  bool inpaints = false;           // its UNet draws into an image with a mask, and nothing else
  const Preset* preset = nullptr;  // the defaults are its; null: the family's
};

class ModelTable {
 public:
  // The rows that --base and --refiner make. Without `refiner` there is one.
  static ModelTable FromFlags(const std::string& base, const std::string& refiner);

  // The model of that name, or the first one for an empty name; null: there is none.
  const ModelRow* Find(absl::string_view name) const;
  // REQUIRES: the id is of this table.
  const ModelRow& operator[](ModelId id) const { return rows_[static_cast<size_t>(id.value)]; }
  ModelRow& operator[](ModelId id) { return rows_[static_cast<size_t>(id.value)]; }
  // In the order of their ids.
  const std::vector<ModelRow>& rows() const { return rows_; }
  std::vector<std::string> Names() const;
  std::vector<std::string> NamesOf(const std::vector<ModelId>& ids) const;

  // The models that draw such a request, in their order: the named one, and with `refine` the one
  // that it hands over to. Empty: there is no model of that name, or it hands over to none.
  std::vector<ModelId> Chain(absl::string_view name, bool refine) const;

 private:
  std::vector<ModelRow> rows_;
};

}  // namespace latentd::pipeline
