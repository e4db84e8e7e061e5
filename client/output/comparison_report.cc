#include "client/output/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/output/json_output.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/similarity.h"

namespace latentd::client {
namespace {

// Gives what it compares of a picture; null: that was not measured.
using Measured = std::function<const Similarity*(const ComparedPicture&)>;

constexpr char kStyle[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:90em;padding:0 1em}"
    "figure{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 2em}img{max-width:min(100%,44em)}"
    "figcaption{width:100%}pre{overflow-x:auto}";

const Similarity* OfPair(const ComparedPicture& picture) { return &picture.similarity; }
const Similarity* OfFewerSteps(const ComparedPicture& picture) {
  return picture.fewer_steps ? &*picture.fewer_steps : nullptr;
}
const Similarity* OfOtherSeed(const ComparedPicture& picture) {
  return picture.other_seed ? &*picture.other_seed : nullptr;
}

std::vector<double> ValuesOf(const Comparison& comparison, const Measured& measured,
                             double Similarity::*value) {
  std::vector<double> values;
  for (const ComparedPicture& picture : comparison.pictures) {
    if (const Similarity* similarity = measured(picture)) values.push_back(similarity->*value);
  }
  return values;
}

int LargestChange(const Comparison& comparison, const Measured& measured) {
  int largest = 0;
  for (const ComparedPicture& picture : comparison.pictures) {
    if (const Similarity* one = measured(picture)) largest = std::max(largest, one->largest_change);
  }
  return largest;
}

std::string Decibels(double psnr) {
  return std::isinf(psnr) ? "equal" : absl::StrFormat("%.1f", psnr);
}

// Nothing where nothing was measured.
std::string Row(const Comparison& comparison, const std::string& title, const Measured& measured) {
  const std::vector<double> all = ValuesOf(comparison, measured, &Similarity::ssim);
  if (all.empty()) return "";
  const Spread ssim = SpreadOf(all);
  const Spread psnr = SpreadOf(ValuesOf(comparison, measured, &Similarity::psnr));
  return absl::StrFormat("%-26s %8.4f %8.4f %8s %8s %8d\n", title, ssim.median, ssim.worst,
                         Decibels(psnr.median), Decibels(psnr.worst),
                         LargestChange(comparison, measured));
}

std::string PreviewRows(const Comparison& comparison) {
  std::set<int> steps;
  for (const ComparedPicture& picture : comparison.pictures) {
    for (const auto& [step, similarity] : picture.previews) steps.insert(step);
  }
  std::string rows;
  for (int step : steps) {
    absl::StrAppend(&rows, Row(comparison, absl::StrCat("preview of step ", step),
                               [step](const ComparedPicture& picture) -> const Similarity* {
                                 const auto found = picture.previews.find(step);
                                 return found == picture.previews.end() ? nullptr : &found->second;
                               }));
  }
  return rows;
}

// JSON has no infinity.
std::string NumberJson(double number) { return std::isinf(number) ? "null" : absl::StrCat(number); }

std::string SimilarityJson(const Similarity& similarity) {
  return absl::StrCat("\"ssim\":", NumberJson(similarity.ssim),
                      ",\"psnr\":", NumberJson(similarity.psnr),
                      ",\"largest_change\":", similarity.largest_change);
}

std::string SpreadJson(const Spread& spread) {
  return absl::StrCat("{\"median\":", NumberJson(spread.median),
                      ",\"worst\":", NumberJson(spread.worst), "}");
}

std::string PictureJson(const ComparedPicture& picture) {
  std::string json =
      absl::StrCat("{\"prompt\":", JsonString(picture.prompt), ",\"seed\":", picture.seed, ",",
                   SimilarityJson(picture.similarity));
  if (picture.fewer_steps) {
    absl::StrAppend(&json, ",\"fewer_steps\":{", SimilarityJson(*picture.fewer_steps), "}");
  }
  if (picture.other_seed) {
    absl::StrAppend(&json, ",\"other_seed\":{", SimilarityJson(*picture.other_seed), "}");
  }
  const auto preview = [](std::string* out, const std::pair<const int, Similarity>& one) {
    absl::StrAppend(out, "{\"step\":", one.first, ",", SimilarityJson(one.second), "}");
  };
  if (!picture.previews.empty()) {
    absl::StrAppend(&json, ",\"previews\":[", absl::StrJoin(picture.previews, ",", preview), "]");
  }
  return json + "}";
}

std::string Html(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string ImageHtml(const std::string& file, const std::string& title) {
  return absl::StrCat("<img src=\"data:image/png;base64,", absl::Base64Escape(file), "\" title=\"",
                      Html(title), "\" alt=\"", Html(title), "\">");
}

std::string FigureHtml(const Comparison& comparison, const ComparedPicture& picture) {
  const Similarity& similarity = picture.similarity;
  return absl::StrCat(
      "<figure><figcaption>", Html(picture.prompt), " · seed ", picture.seed,
      absl::StrFormat(" · SSIM %.4f · PSNR %s", similarity.ssim, Decibels(similarity.psnr)),
      "</figcaption>", ImageHtml(picture.file_a, comparison.server_a),
      ImageHtml(picture.file_b, comparison.server_b), "</figure>\n");
}

}  // namespace

absl::StatusOr<Similarity> Compare(const image::Image& a, const image::Image& b) {
  if (a == b) return Similarity{1, std::numeric_limits<double>::infinity(), 0};
  Similarity similarity;
  ASSIGN_OR_RETURN(similarity.ssim, image::StructuralSimilarity(a, b));
  ASSIGN_OR_RETURN(similarity.psnr, image::PeakSignalToNoise(a, b));
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    similarity.largest_change = std::max(similarity.largest_change, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return similarity;
}

Spread SpreadOf(std::vector<double> values) {
  absl::c_sort(values);
  return {values[(values.size() - 1) / 2], values.front()};
}

std::string ComparisonTable(const Comparison& comparison) {
  const auto equal = absl::c_count_if(comparison.pictures, [](const ComparedPicture& picture) {
    return picture.similarity.largest_change == 0;
  });
  const std::string fewer =
      absl::StrCat(comparison.fewer_steps, " instead of ", comparison.steps, " steps");
  return absl::StrCat(
      absl::StrFormat("%-26s %17s %17s %8s\n", "", "SSIM", "PSNR, dB", "largest"),
      absl::StrFormat("%-26s %8s %8s %8s %8s %8s\n", "", "median", "worst", "median", "worst",
                      "change"),
      Row(comparison, "the two servers", OfPair), Row(comparison, fewer, OfFewerSteps),
      Row(comparison, "another seed", OfOtherSeed), PreviewRows(comparison),
      absl::StrFormat("%d pictures, of which %d are equal\n", comparison.pictures.size(), equal));
}

std::string ComparisonJson(const Comparison& comparison) {
  const auto spread = [&](double Similarity::*value) {
    return SpreadJson(SpreadOf(ValuesOf(comparison, OfPair, value)));
  };
  const auto picture = [](std::string* out, const ComparedPicture& one) {
    absl::StrAppend(out, PictureJson(one));
  };
  return absl::StrCat("{\"servers\":[", JsonString(comparison.server_a), ",",
                      JsonString(comparison.server_b), "],\"ssim\":", spread(&Similarity::ssim),
                      ",\"psnr\":", spread(&Similarity::psnr), ",\"pictures\":[",
                      absl::StrJoin(comparison.pictures, ",", picture), "]}");
}

std::string ComparisonPage(const Comparison& comparison) {
  std::vector<const ComparedPicture*> pictures;
  for (const ComparedPicture& picture : comparison.pictures) pictures.push_back(&picture);
  absl::c_stable_sort(pictures, [](const ComparedPicture* a, const ComparedPicture* b) {
    return a->similarity.ssim < b->similarity.ssim;
  });
  std::string page = absl::StrCat(
      "<!doctype html><meta charset=\"utf-8\"><title>latent compare</title><style>", kStyle,
      "</style>\n<h1>", Html(comparison.server_a), " and ", Html(comparison.server_b),
      "</h1>\n<pre>", Html(ComparisonTable(comparison)), "</pre>\n");
  for (const ComparedPicture* picture : pictures) {
    absl::StrAppend(&page, FigureHtml(comparison, *picture));
  }
  return page;
}

}  // namespace latentd::client
