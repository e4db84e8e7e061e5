// The settings of a noise scheduler: scheduler_config.json, with what a request changes of it laid
// over.
//
// A field that the scheduler does not know is passed over, as diffusers' from_config does, so that
// a request may name another scheduler than the checkpoint's; one of a file that no scheduler of
// diffusers' has can be told (unknown_fields), and one that a request lays over is refused by name.
// So is a value that is not linear in what a step combines (clip_sample, thresholding) or not
// supported. An absent field has the default of diffusers' class. Two exceptions: diffusers' DDIM
// and DDPM clip unless told not to, which no latent model wants, and its PNDM begins with
// Runge-Kutta steps unless told not to, so a request that names one of them over another
// scheduler's file that says nothing of clip_sample or skip_prk_steps gets false and true.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/schedulers/config/options.h"
#include "core/schedulers/config/scheduler_config.h"

namespace latentd::schedulers {

// A scheduler_config.json as it was read once, for the requests that lay something over it.
// Immutable; copies share what was read.
class SchedulerFile {
 public:
  // `json` is the file's text, and `class_name` what model_index.json says of it, which counts more
  // than the file's own _class_name, as in diffusers; empty: the file's. `align_your_steps` is the
  // table for the checkpoint's kind. INVALID_ARGUMENT: it is no JSON object.
  static absl::StatusOr<SchedulerFile> Parse(
      absl::string_view json, absl::string_view class_name = {},
      AlignYourStepsTable align_your_steps = AlignYourStepsTable::kSdxl);

  // The settings of the file with `overrides` laid over. INVALID_ARGUMENT, with a field violation
  // for each of the overrides that cannot be met (fields "scheduler", "timestep_spacing", ...:
  // their names in Overrides, `name` as "scheduler"), or without violations where the file itself
  // is at fault.
  absl::StatusOr<SchedulerConfig> With(const Overrides& overrides) const;

  // The file with the fields of a JSON object laid over its own, the class among them; with another
  // class without its spreads of sigmas (use_karras_sigmas, ...). Empty: as it is.
  // INVALID_ARGUMENT: it is no JSON object.
  absl::StatusOr<SchedulerFile> Over(absl::string_view json) const;

  // The class of the scheduler that the checkpoint was made for.
  const std::string& class_name() const;

 private:
  struct Parsed;
  explicit SchedulerFile(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

// The short names, in the order of the table: "euler", "euler_a", "ddim", ...
std::vector<std::string> SupportedSchedulers();

// The same with all that each is called.
struct SchedulerNames {
  std::string name;
  std::vector<std::string> aliases;  // names in the web UIs and in diffusers
  std::vector<std::string> grids;    // names that may stand behind it: "karras" in "euler_karras"
};
std::vector<SchedulerNames> NamesOfSchedulers();

// INVALID_ARGUMENT, with the nearest names and all short ones, unless `name` may stand in
// Overrides::name (core/schedulers/scheduler_names.h says what may).
absl::Status CheckSchedulerName(absl::string_view name);

}  // namespace latentd::schedulers
