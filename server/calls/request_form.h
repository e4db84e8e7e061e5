// What can be wrong with a request that only its message shows: what is absent, what is there
// though it does not apply, and what no field of the engine's spec can hold. What the values mean,
// ranges and fields that exclude each other among it, is the engine's to check (Engine::Validate).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/error_details.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::calls {

inline constexpr size_t kMaxRequestIdBytes = 128;

// Whether it may be one: short, and of letters that a log line and a header can have. Thread-safe.
bool IsRequestId(absl::string_view id);

// Every violation of form, in the order of the fields. Thread-safe; a free function without state.
std::vector<FieldViolation> CheckForm(const latent::v1::GenerateRequest& request);

// INVALID_ARGUMENT with all that is wrong with the form. Thread-safe.
absl::Status CheckForm(const latent::v1::ResumeStreamRequest& request);
absl::Status CheckForm(const latent::v1::CancelGenerationRequest& request);

}  // namespace latentd::server::calls
