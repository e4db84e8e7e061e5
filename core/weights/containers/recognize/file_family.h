// The families of checkpoints that come as single files, and everything about them that a file does
// not say: the default configurations of diffusers' folders, as data. Shapes win over them, since
// these have no sizes of networks.
//
// Thread-safe: constants, and free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::weights {

enum class FileFamily : uint8_t { kSd1, kSd2, kXlBase, kXlRefiner };

// How noise is predicted, and the schedule that the network was trained at.
enum class NoisePrediction : uint8_t { kEpsilon, kVelocity, kVelocityZeroSnr, kSample, kEdm };

bool IsVelocity(NoisePrediction prediction);

struct FamilyDefaults {
  absl::string_view title;           // "Stable Diffusion XL (base)"
  absl::string_view pipeline_class;  // class in diffusers
  absl::string_view architecture;    // beginning of modelspec.architecture
  int64_t heads;                     // heads of the UNet's attention; 0: one for each 64 channels
  bool upcast_attention;
  int64_t sample_size;           // latents on a side
  int64_t velocity_sample_size;  // the same of checkpoints that predict the velocity
  double scaling_factor;         // scale of the VAE's latents
  int time_ids;                  // numbers among the added conditions, behind the pooled text
  bool force_zeros_for_empty_prompt;
  bool requires_aesthetics_score;
};

const FamilyDefaults& DefaultsOf(FileFamily family);

// The fields of scheduler_config.json, as JSON, that a prediction other than EDM's decides.
std::string SchedulerSettingsOf(NoisePrediction prediction);

// All of scheduler_config.json.
std::string SchedulerConfigOf(FileFamily family, NoisePrediction prediction);

}  // namespace latentd::weights
