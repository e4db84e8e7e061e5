// A Scheduler is one noise scheduler: its fields, its grid of timesteps and noise levels, and the
// coefficients at a point of that grid. Each has a file of its own, and one row in
// core/schedulers/scheduler_table.cc. Private to core/schedulers.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/errors/error_details.h"
#include "core/schedulers/config/scheduler_config.h"
#include "core/schedulers/formulas/step_coefficients.h"
#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

struct Scheduler {
  absl::string_view class_name;  // in diffusers; empty if it has none
  // The fields of scheduler_config.json that its class has beyond kCommonFields, and those that its
  // class does not list but reads where another class's file has them.
  absl::Span<const absl::string_view> fields;
  bool spaces_timesteps = true;  // its class has timestep_spacing and steps_offset
  // True if its timesteps or noise levels are its own, so that no grid can be named behind it.
  bool has_own_grid = false;
  void (*set_defaults)(SchedulerConfig& config) =
      nullptr;  // sets the defaults in which its class differs from SchedulerConfig; null: none
  // A value that other schedulers may have but its formulas do not cover; null if there is none.
  std::optional<FieldViolation> (*find_mistake)(const SchedulerConfig& config) = nullptr;
  bool takes_timesteps = false;
  bool takes_sigmas = false;
  bool takes_eta = false;

  // Fills timesteps, sigmas or alphas_cumprod, and initial_noise_scale. REQUIRES: a validated
  // request.
  absl::Status (*fill_grid)(Grid& grid);
  // May give coefficients that are not finite; the caller refuses them.
  StepCoefficients (*step)(const Grid& grid, Point point);
  StartScales (*start)(const Grid& grid, int index);

  bool HasField(absl::string_view name) const;
};

// Fields that every scheduler has, and those of all that space timesteps.
inline constexpr absl::string_view kCommonFields[] = {
    "num_train_timesteps", "beta_start",    "beta_end",
    "beta_schedule",       "trained_betas", "prediction_type"};
inline constexpr absl::string_view kSpacingFields[] = {"timestep_spacing", "steps_offset"};

extern const Scheduler kEuler;
extern const Scheduler kEulerAncestral;
extern const Scheduler kDdim;
extern const Scheduler kDpmpp2m;
extern const Scheduler kHeun;
extern const Scheduler kLcm;
extern const Scheduler kPndm;
extern const Scheduler kUniPc;
extern const Scheduler kDpmpp3mSde;
extern const Scheduler kLms;
extern const Scheduler kDeis;
extern const Scheduler kDpm2;
extern const Scheduler kDpm2Ancestral;
extern const Scheduler kTcd;
extern const Scheduler kEdmEuler;
extern const Scheduler kEdmDpmpp2m;
extern const Scheduler kDpmpp2s;
extern const Scheduler kDpmppSde;
extern const Scheduler kDpmpp2sAncestral;
extern const Scheduler kIpndm;
extern const Scheduler kDdpm;
extern const Scheduler kSaSolver;

}  // namespace latentd::schedulers
