#include "tests/golden/likeness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "tests/golden/case_files.h"

namespace latentd::golden {

using nlohmann::json;

Likeness LikenessOf(std::vector<double> similarities) {
  std::sort(similarities.begin(), similarities.end());
  return {.median = similarities[(similarities.size() - 1) / 2], .worst = similarities.front()};
}

std::vector<Measure> MeasureLikeness(const std::vector<double>& similarities,
                                     const std::optional<Likeness>& of_diffusers,
                                     double loss_factor) {
  const Likeness likeness = LikenessOf(similarities);
  if (!of_diffusers) return {{"SSIM", likeness.worst, kLeastSimilarity, Bound::kAtLeast}};
  const double most_lost = loss_factor * (1 - of_diffusers->median);
  return {{absl::StrCat("SSIM, median of ", similarities.size()), likeness.median,
           std::max(kLeastMedianSimilarity, 1 - most_lost), Bound::kAtLeast, of_diffusers->median},
          {"worst", likeness.worst, kLeastSimilarity, Bound::kAtLeast, of_diffusers->worst}};
}

absl::StatusOr<LikenessCases> LikenessCases::Read(const Options& options) {
  ASSIGN_OR_RETURN(json seeds, ReadJsonFile(options.cases + "/likeness.json"));
  const std::string folder = options.cases + "/likeness";
  const std::string path = folder + "/diffusers.json";
  ASSIGN_OR_RETURN(const json kept, ReadJsonFile(path));
  const char* precision = options.IsInBf16() ? "bf16" : "fp16";
  if (!kept.contains(precision)) {
    return absl::NotFoundError(
        absl::StrCat(path, " does not say what diffusers keeps in ", precision));
  }
  return LikenessCases(folder, std::move(seeds), kept[precision]);
}

std::vector<uint64_t> LikenessCases::SeedsOf(const std::string& name) const {
  return seeds_.value(name, std::vector<uint64_t>{});
}

std::string LikenessCases::PicturePath(const std::string& name, uint64_t seed) const {
  return absl::StrCat(folder_, "/", name, "-", seed, ".png");
}

std::optional<Likeness> LikenessCases::OfDiffusers(const std::string& name) const {
  const auto kept = kept_.value(name, std::vector<double>{});
  if (kept.empty()) return std::nullopt;
  return LikenessOf(kept);
}

}  // namespace latentd::golden
