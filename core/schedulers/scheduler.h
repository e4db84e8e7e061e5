// A Scheduler is one noise scheduler: its fields, its grid of timesteps and noise levels, and the
// coefficients at a point of that grid. Each has a file of its own, and one row in
// scheduler_table.cc. Private to this directory.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/error_details.h"
#include "core/schedulers/config.h"
#include "core/schedulers/schedule.h"

namespace latentd::schedulers {

// Everything that formulas read: one entry for each evaluation of the network, before strength and
// the like cut it.
struct Grid {
  const SchedulerConfig& config;
  const ScheduleRequest& request;

  // Evaluations of a step; a run begins at a multiple of them. Two kinds of steps differ: the last
  // may have fewer; and where there are more evaluations than those of all steps, as PNDM has one,
  // the first step of a run has them, wherever it begins. diffusers' order.
  int stride = 1;
  std::vector<double> timesteps;
  std::vector<float> sigmas;  // noise / signal at each evaluation and after the last; or empty, and
  std::vector<float> alphas_cumprod;  // signal² by training timestep
  double initial_noise_scale = 1;
};

// A point of the grid, in a run that began at `begin`: a multi-step method has no history there.
struct Point {
  int index = 0;
  int begin = 0;
};

// latents = image * latents of an image + noise * noise
struct StartScales {
  double image = 1;
  double noise = 0;
};

struct Scheduler {
  absl::string_view class_name;  // in diffusers; empty if it has none
  // The fields of scheduler_config.json that its class has beyond kCommonFields, and those that its
  // class does not list but reads where another class's file has them.
  absl::Span<const absl::string_view> fields;
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

// Fields that every scheduler has.
inline constexpr absl::string_view kCommonFields[] = {
    "num_train_timesteps", "beta_start",      "beta_end",         "beta_schedule",
    "trained_betas",       "prediction_type", "timestep_spacing", "steps_offset"};

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

}  // namespace latentd::schedulers
