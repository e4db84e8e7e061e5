// The table of request fields: a row for each field of a PictureSpec that a request can set.
// Validation, defaults, warnings, conversion from and to the API, limits and the content of a
// request are loops over it, so that a new field is a line in the proto, a member of PictureSpec
// and a row here. The init image, its mask, images of controls and IP-Adapters, and latents are
// files, and have none.
//
// Thread-safe: the table never changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

struct AskedSpec;      // validation.h
class Violations;      // validation.h
struct Uses;           // unused_parameters.h
struct ModelDefaults;  // model_table.h

// Place of a field in a spec. An absent optional is a field that was not set; so is an empty list.
// Plain numbers, which videos alone have, are always set.
using Member =
    std::variant<int*, double*, std::string*, std::optional<std::string>*, bool*,
                 std::optional<bool>*, std::optional<int>*, std::optional<uint64_t>*,
                 std::optional<double>*, std::vector<uint64_t>*, std::vector<double>*,
                 std::optional<Size>*, std::optional<Offset>*, std::optional<GuidanceInterval>*,
                 std::optional<GuidanceStop>*, std::optional<Effort>*, BucketPolicy*, ResizeMode*,
                 prompts::Syntax*, prompts::LongPrompt*, std::vector<Adapter>*,
                 std::vector<Control>*, std::vector<ImagePrompt>*>;

// Values that a number may have, NaN never: also of each side of a size, and of a text's bytes.
struct Range {
  enum class Ends : uint8_t { kBoth, kHigh, kNone };  // ends that are values themselves
  double low = 0, high = 0;
  Ends ends = Ends::kBoth;
};

// Sources of defaults.
struct DefaultSources {
  Size size;  // the init image's, else the model's
  const ModelDefaults& model;
};

// A reason for which a field has no effect.
struct Idle {
  bool (*applies)(const Uses& uses);
  absl::string_view why;  // "it needs a guidance_scale above 1"
  // True if the field asks for something that could have an effect. Null: if it has another value
  // than its neutral one (an empty text, all steps).
  bool (*is_asked)(const Uses& uses) = nullptr;
};

struct Field {
  absl::string_view name;  // in the API and in errors; "previews.every_n_steps" is in a message
  Member (*member)(PictureSpec& spec);
  std::optional<Range> range = {};
  std::optional<double> neutral = {};  // value that is as good as none
  // Further rules, in the order of their violations. Rules of several fields are in the last one's.
  std::vector<void (*)(const Field& field, const AskedSpec& asked, Violations& found)> rules = {};
  // Sets the default; called where the field is absent, in the order of the table. Null: the field
  // stays absent.
  void (*fill)(const Field& field, PictureSpec& spec, const DefaultSources& sources) = nullptr;
  std::vector<Idle> idle = {};                 // the first that applies is reported
  std::vector<absl::string_view> limits = {};  // names of GetCapabilities's bounds for it
  bool is_own = false;  // each request's own, for which an operator has no default
};

// All rows, in the order in which violations and warnings are reported.
const std::vector<Field>& Fields();

// Calls `visitor` with the field's member of the spec.
template <typename Visitor>
decltype(auto) VisitField(const Field& field, PictureSpec& spec, const Visitor& visitor) {
  return std::visit([&](auto* member) -> decltype(auto) { return visitor(*member); },
                    field.member(spec));
}

template <typename Visitor>
decltype(auto) VisitField(const Field& field, const PictureSpec& spec, const Visitor& visitor) {
  // `member` changes nothing.
  return std::visit([&](const auto* member) -> decltype(auto) { return visitor(*member); },
                    field.member(const_cast<PictureSpec&>(spec)));
}

// True if the field is present: a bool, a policy and an empty text or list are their own absence.
bool IsSet(const Field& field, const PictureSpec& spec);

}  // namespace latentd::pipeline
