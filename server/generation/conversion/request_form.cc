#include "server/generation/conversion/request_form.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/generation/conversion/type_rules.h"
#include "server/generation/conversion/video_output.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

void CheckRequestId(const std::string& id, std::vector<FieldViolation>& violations) {
  if (IsRequestId(id)) return;
  violations.push_back({"request_id", absl::StrCat("must be at most ", kMaxRequestIdBytes,
                                                   " letters, digits and ._:- characters")});
}

// Checks the id of an earlier request.
void CheckKnownId(const std::string& id, std::vector<FieldViolation>& violations) {
  if (!id.empty()) return CheckRequestId(id, violations);
  violations.push_back({"request_id", "must be that of a resumable request"});
}

void CheckNotNegative(const char* field, int64_t value, std::vector<FieldViolation>& violations) {
  if (value < 0) violations.push_back({field, absl::StrCat("must not be negative, is ", value)});
}

template <typename Request>
void CheckLatentsGiven(const Request& request, std::vector<FieldViolation>& violations) {
  if (!request.has_latents() || !request.latents().empty()) return;
  violations.push_back({"latents", "is empty: it must be a safetensors file"});
}

absl::Status ToStatus(const std::vector<FieldViolation>& violations) {
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

void CheckOutput(const v1::Output& output, std::vector<FieldViolation>& violations) {
  const v1::Format format = output.format();
  const bool png = format == v1::FORMAT_PNG || format == v1::FORMAT_UNSPECIFIED;
  if (output.has_quality() && format != v1::FORMAT_JPEG && format != v1::FORMAT_WEBP) {
    violations.push_back({"output.quality", "applies to FORMAT_JPEG and FORMAT_WEBP only"});
  }
  if (output.embed_parameters() && !png) {
    violations.push_back({"output.embed_parameters", "applies to FORMAT_PNG only"});
  }
}

bool IsRequestId(absl::string_view id) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == ':' || c == '-';
  };
  return id.size() <= kMaxRequestIdBytes && std::all_of(id.begin(), id.end(), allowed);
}

std::vector<FieldViolation> CheckForm(const v1::GenerateRequest& request, bool draws) {
  std::vector<FieldViolation> violations;
  CheckRequestId(request.request_id(), violations);
  if (draws && request.prompt().empty() && !request.has_prompt_embeds()) {
    violations.push_back({"prompt", "must not be empty: say what to draw, or set prompt_embeds"});
  }
  CheckTypes(request, violations);
  if (request.has_image() && request.image().empty()) {
    violations.push_back({"image", "is empty: it must be a PNG, JPEG or WebP"});
  }
  if (request.has_mask_image() && request.mask_image().empty()) {
    violations.push_back({"mask_image", "is empty: it must be a PNG, JPEG or WebP"});
  }
  CheckLatentsGiven(request, violations);
  CheckOutput(request.output(), violations);
  if (request.resumable() && request.request_id().empty()) {
    violations.push_back({"resumable", "needs a request_id, by which ResumeStream finds it"});
  }
  return violations;
}

std::vector<FieldViolation> CheckForm(const v1::GenerateVideoRequest& request) {
  std::vector<FieldViolation> violations;
  CheckRequestId(request.request_id(), violations);
  CheckTypes(request, violations);
  CheckLatentsGiven(request, violations);
  CheckVideoOutput(request.output(), violations);
  if (request.resumable() && request.request_id().empty()) {
    violations.push_back({"resumable", "needs a request_id, by which ResumeVideo finds it"});
  }
  return violations;
}

absl::Status CheckForm(const v1::ResumeStreamRequest& request) {
  std::vector<FieldViolation> violations;
  CheckKnownId(request.request_id(), violations);
  CheckNotNegative("received_images", request.received_images(), violations);
  CheckNotNegative("received_bytes", request.received_bytes(), violations);
  return ToStatus(violations);
}

absl::Status CheckForm(const v1::ResumeVideoRequest& request) {
  std::vector<FieldViolation> violations;
  CheckKnownId(request.request_id(), violations);
  CheckNotNegative("received_bytes", request.received_bytes(), violations);
  return ToStatus(violations);
}

absl::Status CheckForm(const v1::CancelGenerationRequest& request) {
  std::vector<FieldViolation> violations;
  CheckKnownId(request.request_id(), violations);
  return ToStatus(violations);
}

}  // namespace latentd::server::generation
