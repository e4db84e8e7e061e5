// The values of flags: texts that become sizes, durations and lists. Every error is
// INVALID_ARGUMENT and names the flag, what was given and what would be right:
//
//   --rows=0: must be whole numbers from 1 to 8, such as 1,2
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/engine/api/config.h"

namespace latentd::server::config {

// Most entries of one list: more is a mistake, and would take days to compile.
inline constexpr size_t kMaxBuckets = 64;

absl::Status WrongValue(absl::string_view flag, absl::string_view value, absl::string_view right);

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low, int64_t high);

// "1048576", "64MiB", "1.5GiB"; not negative.
absl::StatusOr<int64_t> ToBytes(absl::string_view flag, absl::string_view text);

// "30s", "1m30s"; at most a day.
absl::StatusOr<absl::Duration> ToTimeout(absl::string_view flag, const std::string& text);

// HOST:PORT or unix:PATH.
absl::Status CheckAddress(absl::string_view flag, absl::string_view address);
// HOST:PORT.
absl::Status CheckTcpAddress(absl::string_view flag, absl::string_view address);

// "epsilon", "v_prediction", "sample"; or empty.
absl::Status CheckPredictionType(absl::string_view flag, absl::string_view text);

// "1024x1024,832x1216"; each once. Empty text: none.
absl::StatusOr<std::vector<pipeline::Size>> ToSizes(absl::string_view flag, absl::string_view text);

// The pixels of "1536x1536". Empty text: unset.
absl::StatusOr<std::optional<int64_t>> ToArea(absl::string_view flag, absl::string_view text);

// "1,2"; each once, at least one.
absl::StatusOr<std::vector<int>> ToRows(absl::string_view flag, absl::string_view text);

// "0,1"; each once. Empty text: none.
absl::StatusOr<std::vector<int>> ToDevices(absl::string_view flag, absl::string_view text);

// "auto"; empty text: never.
absl::StatusOr<engine::Split> ToSplit(absl::string_view flag, absl::string_view text);
absl::StatusOr<pipeline::Placement> ToPlacement(absl::string_view flag, absl::string_view text);

// "vae_encoder=off,text_encoder=reference"; each component once. Empty text: none.
absl::StatusOr<std::map<std::string, engine::ComponentMode>> ToModes(absl::string_view flag,
                                                                     absl::string_view text);

struct Precision {
  std::map<std::string, engine::DType> components;  // all of them
  bool tf32 = false;             // products of f32 may round their operands to TF32
  bool f8_convolutions = false;  // UNets in fp8 convolve in 8 bits
};

// "bf16" for every component, "unet_base=bf16,vae_decoder=fp32", or both, where a component's own
// value wins; each once. What the text says nothing of is in `otherwise`, spelled alike. REQUIRES:
// that is one. "tf32" is f32 with TF32, which is for all that is f32, so that a text that has it
// and fp32 is wrong. "fp8" is for UNets; said of all components, the others are in bf16. "fp8_all"
// is fp8 with convolutions, which is for all that is fp8, so that a text that has both is wrong.
absl::StatusOr<Precision> ToPrecision(absl::string_view flag, absl::string_view text,
                                      absl::string_view otherwise);

// "renderer.example.org=2,ipv4:192.0.2.7=1": callers (server/generation/caller.h), each once, with
// a priority from 0 on. Empty text: none.
absl::StatusOr<std::map<std::string, int, std::less<>>> ToCallerPriorities(absl::string_view flag,
                                                                           absl::string_view text);

// "https://app.example.org,http://localhost:3000", or "*": origins of pages, in small letters.
// Empty text: none.
absl::StatusOr<std::vector<std::string>> ToOrigins(absl::string_view flag, absl::string_view text);

// "epilogues,image_layout": words of small letters, digits and underscores. Empty text: none.
absl::StatusOr<std::vector<std::string>> ToNames(absl::string_view flag, absl::string_view text);

}  // namespace latentd::server::config
