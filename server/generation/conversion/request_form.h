// Checks of a request that only its message allows: fields that are absent, fields that are there
// though they do not apply, and values that no field of the engine's spec can hold. Their meaning,
// ranges and fields that exclude each other among it, is the engine's to check (Engine::Validate).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::server::generation {

inline constexpr size_t kMaxRequestIdBytes = 128;

// True for a short id of letters that a log line and a header can have. Thread-safe.
bool IsRequestId(absl::string_view id);

// Adds those of how pictures are returned. Thread-safe.
void CheckOutput(const latent::v1::Output& output, std::vector<FieldViolation>& violations);

// Every violation of form, in the order of the fields. Thread-safe; a free function without state.
// `draws`: else it is only encoded, and its prompt may be empty.
std::vector<FieldViolation> CheckForm(const latent::v1::GenerateRequest& request,
                                      bool draws = true);
std::vector<FieldViolation> CheckForm(const latent::v1::GenerateVideoRequest& request);

// INVALID_ARGUMENT with all that is wrong with the form. Thread-safe.
absl::Status CheckForm(const latent::v1::ResumeStreamRequest& request);
absl::Status CheckForm(const latent::v1::ResumeVideoRequest& request);
absl::Status CheckForm(const latent::v1::CancelGenerationRequest& request);

}  // namespace latentd::server::generation
