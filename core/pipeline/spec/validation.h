// Finds every bad field of a PictureSpec at once, and fills in what it leaves out. Pure functions.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

struct Field;  // fields.h
struct Range;  // fields.h

// Facts about the loaded checkpoints that validation needs.
struct Traits {
  int side_multiple = 8;       // the VAEs'
  ModelTable models;           // has one at least
  std::set<std::string> off;   // components (components.h)
  bool feature_cache = false;  // steps have graphs for feature_cache_interval
};

// A spec that is validated.
struct AskedSpec {
  const PictureSpec& spec;
  const Traits& traits;
};

// Collects what is wrong with a request.
class Violations {
 public:
  // The pieces together say what would be right.
  template <typename... Pieces>
  void Add(absl::string_view field, const Pieces&... pieces) {
    found_.push_back({std::string(field), absl::StrCat(pieces...)});
  }

  // Nothing where the field is absent.
  void CheckRange(const Field& field, const Range& range, const PictureSpec& spec);

  std::vector<FieldViolation> Take() { return std::move(found_); }

 private:
  void CheckBytes(absl::string_view field, const std::string& text, double most);

  std::vector<FieldViolation> found_;
};

// Violations of what can be told from the spec and the traits alone: ranges, sizes, fields that
// exclude each other. Field names are those of the proto.
std::vector<FieldViolation> FindViolations(const PictureSpec& spec, const Traits& traits);
// The same of one row of the table of request fields (fields.h) alone. REQUIRES: there is one.
std::vector<FieldViolation> FindViolationsOf(absl::string_view field, const PictureSpec& spec,
                                             const Traits& traits);

// Fills every absent field with the model's or diffusers' default; a random seed too. REQUIRES:
// FindViolations(spec) is empty. An init image's own size, which decides width and height when they
// are absent, is given as `image_size`; a crop of it has the model's. `defaults` count in the place
// of the model's own.
PictureSpec WithDefaults(PictureSpec spec, const Traits& traits, const Size* image_size,
                         const ModelDefaults* defaults = nullptr);

// True if the spec says how many steps it wants.
bool HasSteps(const PictureSpec& spec);

// How many steps the spec asks for: those of its own schedule (sigmas are one more than steps), or
// num_inference_steps. REQUIRES: HasSteps, as after WithDefaults.
int StepsOf(const PictureSpec& spec);

}  // namespace latentd::pipeline
