#include "core/weights/containers/recognize/part_reader.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/text.h"
#include "core/weights/scaled_source.h"

namespace latentd::weights {
namespace {

using device::Shape;
using graph::GraphBuilder;
using graph::Value;

constexpr size_t kMostNamed = 8;
constexpr size_t kNameExcerpt = 200;

// The rows of these tensors hold schedules of noise, counters and masks of training.
constexpr absl::string_view kIgnoredBeginnings[] = {"alphas_cumprod",
                                                    "sqrt_alphas_cumprod",
                                                    "sqrt_one_minus_alphas_cumprod",
                                                    "log_one_minus_alphas_cumprod",
                                                    "sqrt_recip",
                                                    "posterior_",
                                                    "loss.",
                                                    "first_stage_model.loss.",
                                                    "vae.loss.",
                                                    "embedding_manager.",
                                                    "model_ema.",
                                                    "edm_mean",
                                                    "edm_std",
                                                    "edm_vpred."};
constexpr absl::string_view kIgnoredNames[] = {
    "betas",  "denoiser.sigmas", "denoiser.log_sigmas", "global_step",
    "v_pred", "ztsnr",           "scale_factor",        "logvar"};
constexpr absl::string_view kIgnoredEnds[] = {"position_ids",        "logit_scale", "attn_mask",
                                              "num_batches_tracked", "scaled_fp8",  "scale_input",
                                              "input_scale"};

// Beginnings of the names of components in files that hold several.
constexpr absl::string_view kComponentPrefixes[] = {"model.",
                                                    "diffusion_model.",
                                                    "unet.",
                                                    "model_ema.",
                                                    "first_stage_model.",
                                                    "vae.",
                                                    "cond_stage_model.",
                                                    "conditioner.",
                                                    "clip_l.",
                                                    "clip_g.",
                                                    "clip_h.",
                                                    "te.",
                                                    "te1.",
                                                    "te2.",
                                                    "text_encoder.",
                                                    "text_encoder_2.",
                                                    "text_encoders.",
                                                    "taesd_encoder.",
                                                    "taesd_decoder."};

// A shape without the ones at its end.
Shape WithoutLastOnes(const Shape& shape) {
  std::vector<int64_t> dims = shape.dims();
  while (!dims.empty() && dims.back() == 1) dims.pop_back();
  return Shape(std::move(dims));
}

// Graphs have no doubles: a weight of them is rounded when it is loaded, and a part of one is cut
// out of its bytes before.
bool AreReadableDoubles(const StoredTensor& tensor) {
  return tensor.unusable_dtype == kDoubles && tensor.data.has_memory();
}

Source SourceOfDoubles(const StoredTensor& whole, device::ConstBuffer part) {
  StoredTensor tensor = whole;
  tensor.data = std::move(part);
  tensor.digest = std::make_shared<const ContentDigest>(tensor.data);
  return Source::Of(std::move(tensor));
}

// A copy of a matrix of doubles, which may lie at any address.
device::ConstBuffer TransposedDoubles(const device::ConstBuffer& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  device::Buffer transposed = device::Buffer::Allocate(matrix.dtype(), {columns, rows});
  const auto* from = static_cast<const char*>(matrix.data());
  auto* to = static_cast<char*>(transposed.data());
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t target = i % columns * rows + i / columns;
    std::memcpy(to + target * static_cast<int64_t>(sizeof(double)),
                from + i * static_cast<int64_t>(sizeof(double)), sizeof(double));
  }
  return transposed;
}

bool EndsInWord(absl::string_view name, absl::string_view word) {
  return name == word || absl::EndsWith(name, absl::StrCat(".", word));
}

}  // namespace

bool IsIgnorable(absl::string_view name) {
  const auto begins = [&](absl::string_view text) { return absl::StartsWith(name, text); };
  const auto ends = [&](absl::string_view text) { return EndsInWord(name, text); };
  return absl::c_any_of(kIgnoredBeginnings, begins) || absl::c_linear_search(kIgnoredNames, name) ||
         absl::c_any_of(kIgnoredEnds, ends);
}

bool PartTensors::HasUnder(absl::string_view path) const {
  const std::string beginning = absl::StrCat(path, ".");
  const auto first = by_name.lower_bound(beginning);
  return first != by_name.end() && absl::StartsWith(first->first, beginning);
}

PartTensors TensorsUnder(const TensorMap& tensors, absl::string_view prefix) {
  PartTensors part = {.prefix = std::string(prefix), .by_name = {}};
  for (const auto& [name, tensor] : tensors) {
    const auto begins = [&, &name = name](absl::string_view text) {
      return absl::StartsWith(name, text);
    };
    if (!begins(prefix) || (prefix.empty() && absl::c_any_of(kComponentPrefixes, begins))) continue;
    part.by_name.emplace(name.substr(prefix.size()), &tensor);
  }
  return part;
}

int64_t PartReader::CountUnder(absl::string_view path) const {
  int64_t count = 0;
  while (count < kMostChildren && HasUnder(absl::StrCat(path, ".", count))) ++count;
  return count;
}

void PartReader::Refuse(std::string mistake) {
  if (!absl::c_linear_search(mistakes_, mistake)) mistakes_.push_back(std::move(mistake));
}

const StoredTensor* PartReader::Find(const std::string& name) {
  used_.insert(name);
  const auto found = tensors_.by_name.find(name);
  if (found != tensors_.by_name.end()) return found->second;
  if (!absl::c_linear_search(missing_, name)) missing_.push_back(name);
  return nullptr;
}

int64_t PartReader::Size(const std::string& name, int dimension) {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return 1;
  const Shape& shape = tensor->data.shape();
  const int64_t size = shape.rank() > dimension ? shape[dimension] : 0;
  if (size >= 1 && size <= kMostFeatures) return size;
  Refuse(absl::StrCat(Excerpt(tensors_.prefix + name, kNameExcerpt), " is ", shape.ToString(),
                      ", which is the shape of no such tensor"));
  return 1;
}

int PartReader::Rank(absl::string_view name) const {
  const auto found = tensors_.by_name.find(name);
  return found == tensors_.by_name.end() ? 0 : found->second->data.shape().rank();
}

void PartReader::RefuseShape(const std::string& name, const StoredTensor& tensor,
                             const Shape& wanted) {
  Refuse(absl::StrCat(Excerpt(tensors_.prefix + name, kNameExcerpt), " is ",
                      tensor.data.shape().ToString(), ", the network wants ", wanted.ToString()));
}

const StoredTensor* PartReader::FindShaped(const std::string& name, const Shape& wanted) {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr || tensor->data.shape() == wanted) return tensor;
  RefuseShape(name, *tensor, wanted);
  return nullptr;
}

Source PartReader::SourceOf(const std::string& name, const StoredTensor& tensor) {
  if (!device::IsF8(tensor.data.dtype())) return Source::Of(tensor);
  for (const std::string& scale_name : ScaleNames(name)) {
    const auto scale = tensors_.by_name.find(scale_name);
    if (scale == tensors_.by_name.end()) continue;
    used_.insert(scale_name);
    return ScaledSource(tensor, *scale->second, tensors_.prefix + scale_name);
  }
  return Source::Of(tensor);
}

void PartReader::Take(const std::string& name, const std::string& wanted_name,
                      const Shape& wanted) {
  const StoredTensor* tensor = FindShaped(name, wanted);
  if (tensor != nullptr) sources_.insert_or_assign(wanted_name, SourceOf(name, *tensor));
}

void PartReader::TakeMatrix(const std::string& name, const std::string& wanted_name,
                            const Shape& wanted) {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return;
  if (WithoutLastOnes(tensor->data.shape()) != WithoutLastOnes(wanted)) {
    RefuseShape(name, *tensor, wanted);
    return;
  }
  StoredTensor reshaped = *tensor;
  reshaped.data = tensor->data.Reshaped(wanted);
  sources_.insert_or_assign(wanted_name, SourceOf(name, reshaped));
}

void PartReader::TakeMade(const std::string& name, const std::string& wanted_name,
                          const StoredTensor& tensor, const Recipe& make) {
  const Source source = SourceOf(name, tensor);
  const device::DType dtype = source.dtype();
  GraphBuilder b;
  const Value stored = b.Append({.op = graph::Op::kWeight,
                                 .dtype = device::IsF8(dtype) ? device::DType::kF32 : dtype,
                                 .shape = source.shape(),
                                 .name = name});
  b.Output("result", make(b, stored));
  const absl::StatusOr<graph::Graph> recipe = std::move(b).Build();
  absl::StatusOr<Source> made = recipe.ok() ? Compose(*recipe, {source}) : recipe.status();
  if (made.ok()) {
    sources_.insert_or_assign(wanted_name, *std::move(made));
  } else {
    Refuse(std::string(made.status().message()));
  }
}

void PartReader::TakeRows(const std::string& name, const std::string& wanted_name,
                          const Shape& stored, int64_t begin, int64_t end) {
  const StoredTensor* tensor = FindShaped(name, stored);
  if (tensor == nullptr) return;
  if (AreReadableDoubles(*tensor)) {
    sources_.insert_or_assign(wanted_name, SourceOfDoubles(*tensor, tensor->data.Rows(begin, end)));
    return;
  }
  TakeMade(name, wanted_name, *tensor,
           [&](GraphBuilder& b, Value whole) { return b.Slice(whole, 0, begin, end); });
}

void PartReader::TakeTransposed(const std::string& name, const std::string& wanted_name,
                                const Shape& wanted) {
  const StoredTensor* tensor = FindShaped(name, {wanted[1], wanted[0]});
  if (tensor == nullptr) return;
  if (AreReadableDoubles(*tensor)) {
    sources_.insert_or_assign(wanted_name,
                              SourceOfDoubles(*tensor, TransposedDoubles(tensor->data)));
    return;
  }
  TakeMade(name, wanted_name, *tensor, [](GraphBuilder& b, Value stored) {
    return b.Permute(stored, {1, 0});
  });
}

void PartReader::Ignore(absl::string_view path) {
  const std::string beginning = absl::StrCat(path, ".");
  for (auto name = tensors_.by_name.lower_bound(path); name != tensors_.by_name.end(); ++name) {
    if (!absl::StartsWith(name->first, path)) break;
    if (name->first == path || absl::StartsWith(name->first, beginning)) used_.insert(name->first);
  }
}

std::vector<std::string> PartReader::LeftOver() const {
  std::vector<std::string> names;
  if (sources_.empty()) return names;  // it was given up before any was looked for
  for (const auto& [name, tensor] : tensors_.by_name) {
    if (!used_.contains(name) && !IsIgnorable(name)) names.push_back(name);
  }
  return names;
}

absl::StatusOr<SourceMap> PartReader::Finish(const std::string& path) && {
  const auto listed = [this](std::vector<std::string> names) {
    for (std::string& name : names) name = Excerpt(tensors_.prefix + name, kNameExcerpt);
    return ListSome(names, kMostNamed);
  };
  std::vector<std::string> reasons;
  if (!missing_.empty()) reasons.push_back("these tensors are missing: " + listed(missing_));
  if (!mistakes_.empty()) reasons.push_back(ListSome(mistakes_, kMostNamed, "; "));
  const std::vector<std::string> left_over = LeftOver();
  if (!left_over.empty()) {
    reasons.push_back("its network has no place for these tensors: " + listed(left_over));
  }
  if (reasons.empty()) return std::move(sources_);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", title_, " cannot be read: ", absl::StrJoin(reasons, "; ")));
}

}  // namespace latentd::weights
