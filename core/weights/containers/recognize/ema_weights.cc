#include "core/weights/containers/recognize/ema_weights.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/text/text.h"
#include "core/weights/containers/recognize/refuse_file.h"

namespace latentd::weights {
namespace {

constexpr absl::string_view kModel = "model.";
constexpr absl::string_view kUnet = "model.diffusion_model.";
constexpr absl::string_view kEma = "model_ema.";
constexpr size_t kMostMissing = 8;
constexpr size_t kMissingName = 200;

std::string EmaName(absl::string_view name) {
  return absl::StrCat(kEma, absl::StrReplaceAll(name.substr(kModel.size()), {{".", ""}}));
}

}  // namespace

int64_t CountEma(const TensorMap& tensors) {
  return absl::c_count_if(tensors,
                          [](const auto& entry) { return absl::StartsWith(entry.first, kEma); });
}

absl::StatusOr<TensorMap> WithEmaWeights(const std::string& path, const TensorMap& tensors) {
  TensorMap averaged;
  std::vector<std::string> missing;
  bool has_some = false;
  averaged.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto found = absl::StartsWith(name, kUnet) ? tensors.find(EmaName(name)) : tensors.end();
    has_some = has_some || found != tensors.end();
    if (found == tensors.end() && absl::StartsWith(name, kUnet)) {
      missing.push_back(Excerpt(name, kMissingName));
    }
    averaged.emplace(name, found == tensors.end() ? tensor : found->second);
  }
  if (!has_some) {
    return RefuseFile(path, " has no EMA weights, which --ema asks for: they are named ", kEma,
                      "diffusion_model..., beside ", kUnet, "...");
  }
  if (missing.empty()) return averaged;
  absl::c_sort(missing);
  return RefuseFile(path, " has EMA weights, which --ema asks for, but none of ",
                    ListSome(missing, kMostMissing));
}

}  // namespace latentd::weights
