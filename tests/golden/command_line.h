// The options of the program golden.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/dtype.h"

namespace latentd::golden {

struct Options {
  std::string cases;       // directory of networks.json, networks/, pictures.json, ...
  std::string checkpoint;  // directory of base/ and refiner/, which the pictures were drawn with
  std::string backend = "cpu";  // or "cuda", "reference"
  bool full = false;            // whole SDXL networks too
  std::set<std::string> only = {"networks", "pictures", "tokens", "videos"};
  std::string case_name;  // empty: all
  std::set<std::string> skip_passes;
  device::DType precision = device::DType::kF32;  // every component's
  bool f8_convolutions = false;                   // UNets in fp8 convolve in 8 bits
  bool tf32 = false;                              // f32 with products in TF32; for backend cuda

  // True if results are to be those of diffusers in float32.
  bool IsExact() const { return precision == device::DType::kF32 && !tf32; }
  // True for fp8 too: what diffusers loses in that is not known, so that it is beside bf16's bars,
  // some of which it misses.
  bool IsInBf16() const {
    return precision == device::DType::kBF16 || precision == device::DType::kF8E4M3;
  }
  bool Selects(const std::string& name) const { return case_name.empty() || case_name == name; }
};

inline constexpr char kUsage[] =
    "Usage: golden --cases DIR --checkpoint DIR [--backend cpu|cuda|reference]\n"
    "              [--full] [--only pictures,networks,tokens,videos] [--case NAME]\n"
    "              [--skip-pass NAME]... [--precision fp32|bf16|fp16|fp8|fp8_all|tf32]\n"
    "Runs what diffusers computed (README.md beside the cases) and says how far latentd is from "
    "it.\n"
    "Exit code: 0 if every case passed, 1 if not, 2 for wrong usage.\n";

// Options are spelled --name VALUE or --name=VALUE. INVALID_ARGUMENT says which one is wrong.
absl::StatusOr<Options> ParseCommandLine(absl::Span<char* const> arguments);

}  // namespace latentd::golden
