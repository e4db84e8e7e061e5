#include "core/adapters/lora/module_change.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/tensor_values.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using weights::StoredTensor;

constexpr size_t kNameBytes = 200;
// Channels of latents, and those of an inpainting UNet's first convolution.
constexpr int64_t kPlainChannels = 4, kInpaintingChannels = 9;

std::string Quoted(const NamedTensor& named) {
  return absl::StrCat("tensor ", Excerpt(named.key, kNameBytes));
}

StoredTensor RowsOf(const StoredTensor& tensor, int64_t begin, int64_t end) {
  StoredTensor rows = tensor;
  rows.data = tensor.data.Rows(begin, end);
  rows.digest = std::make_shared<const weights::ContentDigest>(rows.data);
  return rows;
}

// Shapes that a delta of the module may have: its weight's, and what a LoRA of a plain model has
// for an inpainting model's first convolution.
std::vector<Shape> DeltaShapes(const Module& module) {
  std::vector<Shape> shapes = {*module.weight};
  const Shape& own = *module.weight;
  const bool is_first = module.component == "unet" && module.path == "conv_in";
  if (is_first && own.rank() == 4 && own[1] == kInpaintingChannels) {
    shapes.push_back({own[0], kPlainChannels, own[2], own[3]});
  }
  return shapes;
}

class ModuleReader {
 public:
  ModuleReader(const std::vector<const Module*>& modules, const ModuleTensors& tensors,
               const PeftScales& peft)
      : modules_(modules), module_(*modules[0]), tensors_(tensors), peft_(peft) {}

  absl::StatusOr<ModuleChange> Read() && {
    ASSIGN_OR_RETURN(std::optional<WeightChange> weight, ReadWeight());
    ASSIGN_OR_RETURN(std::optional<WeightChange> bias, ReadBias());
    if (!weight) RETURN_IF_ERROR(CheckNoneOfWeight());
    change_.is_alpha_alone = !weight && !bias;
    if (weight) RETURN_IF_ERROR(AddParts(*std::move(weight), &Module::WeightName));
    if (bias) RETURN_IF_ERROR(AddParts(*std::move(bias), &Module::BiasName));
    return std::move(change_);
  }

 private:
  const NamedTensor* Find(Role role) const {
    const auto found = tensors_.find(role);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  // With the rows of all modules.
  Shape Stacked(const Shape& shape) const {
    std::vector<int64_t> dims = shape.dims();
    if (!dims.empty()) dims[0] *= static_cast<int64_t>(modules_.size());
    return Shape(std::move(dims));
  }

  absl::StatusOr<std::optional<WeightChange>> ReadWeight() {
    if (!module_.weight) return std::nullopt;
    absl::Status first = absl::OkStatus();
    for (const Shape& shape : DeltaShapes(module_)) {
      const Shape stacked = Stacked(shape);
      absl::StatusOr<std::optional<ModuleDelta>> delta = FindDelta(tensors_, stacked);
      if (!delta.ok()) {
        first.Update(
            absl::Status(delta.status().code(),
                         absl::StrCat(delta.status().message(), " for ", module_.WeightName(),
                                      ", which is ", module_.weight->ToString())));
        continue;
      }
      if (!*delta) return std::nullopt;
      return Finish(**std::move(delta), stacked);
    }
    return first;
  }

  absl::StatusOr<std::optional<WeightChange>> Finish(ModuleDelta delta, const Shape& shape) {
    WeightChange weight;
    weight.shape = shape;
    ASSIGN_OR_RETURN(weight.scale, ScaleOf(delta));
    RETURN_IF_ERROR(CheckScale(weight.scale));
    weight.delta = std::move(delta.delta);
    ASSIGN_OR_RETURN(weight.magnitude, ReadMagnitude(shape));
    // Lengths change the weight without a delta, too.
    if (weight.magnitude) change_.has_alpha_zero = false;
    scale_ = weight.scale;
    return weight;
  }

  // Graphs compute in float32, where a greater one is an infinity.
  absl::Status CheckScale(double scale) const {
    if (std::abs(scale) <= std::numeric_limits<float>::max()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(Quoted(tensors_.begin()->second),
                                                   " has the scale ", scale, ", beyond float32"));
  }

  absl::StatusOr<double> Scalar(const NamedTensor& named) const {
    if (const std::optional<double> value = ReadScalar(named.tensor)) return *value;
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(named), " is ", TypeOf(named.tensor),
                     ", and one finite number of F64, F32, F16, BF16, I64 or U8 "
                     "would be right"));
  }

  absl::StatusOr<double> ScaleOf(const ModuleDelta& delta) {
    if (delta.rank == 0) return ScaleOfWhole(delta);
    const NamedTensor* alpha = Find(Role::kAlpha);
    if (const NamedTensor* scale = Find(Role::kScale)) return Scalar(*scale);
    const std::optional<double> said = peft_.Find(module_, delta.rank);
    if (alpha == nullptr) return said.value_or(1);
    if (said) {
      return absl::InvalidArgumentError(absl::StrCat(Quoted(*alpha), " and the file's ",
                                                     PeftScales::kMetadataKey,
                                                     " both say the scale: one of them must go"));
    }
    ASSIGN_OR_RETURN(const double value, Scalar(*alpha));
    change_.has_alpha_zero = value == 0;
    return value / static_cast<double>(delta.rank);
  }

  // An alpha is written beside differences and whole factors by habit; a scale would be meant.
  absl::StatusOr<double> ScaleOfWhole(const ModuleDelta& delta) {
    if (const NamedTensor* scale = Find(Role::kScale)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(*scale),
                       " is a scale, which this kind has not: it is a whole difference, or LoKr of "
                       "two whole factors"));
    }
    const bool is_difference = std::holds_alternative<Difference>(delta.delta);
    change_.ignores_alpha = !is_difference && Find(Role::kAlpha) != nullptr;
    return 1;
  }

  absl::StatusOr<std::optional<Magnitude>> ReadMagnitude(const Shape& shape) const {
    const NamedTensor* peft = Find(Role::kPeftMagnitude);
    const NamedTensor* lycoris = Find(Role::kDoraScale);
    if (peft != nullptr && lycoris != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(Quoted(*peft), " and ", Quoted(*lycoris),
                                                     " are two magnitudes of one weight"));
    }
    const NamedTensor* found = peft != nullptr ? peft : lycoris;
    if (found == nullptr) return std::nullopt;
    if (shape.rank() < 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(*found), " is a magnitude, but its weight is a vector, ", shape.ToString()));
    }
    return peft != nullptr ? ReadPeft(*peft, shape) : ReadLycoris(*lycoris, shape);
  }

  // [out], or [1, out, 1, 1] of a convolution.
  static absl::StatusOr<std::optional<Magnitude>> ReadPeft(const NamedTensor& named,
                                                           const Shape& shape) {
    std::vector<int64_t> dims = named.tensor.data.shape().dims();
    if (dims.size() > 1 && dims[0] == 1) dims.erase(dims.begin());
    NamedTensor bare = named;
    bare.tensor.data = named.tensor.data.Reshaped(Shape(std::move(dims)));
    ASSIGN_OR_RETURN(StoredTensor values, InShape(bare, {shape[0]}));
    return Magnitude{std::move(values), Magnitude::Rule::kPeft, Magnitude::Axis::kRows};
  }

  // [out, 1, ...] or [1, in, ...]. REQUIRES: the weight is no vector.
  static absl::StatusOr<std::optional<Magnitude>> ReadLycoris(const NamedTensor& named,
                                                              const Shape& shape) {
    const Shape& own = named.tensor.data.shape();
    const bool is_wide = own.rank() >= 2 && own.elements() == shape[1] && own[1] == shape[1];
    const bool is_high = own.rank() >= 2 && own.elements() == shape[0] && own[0] == shape[0];
    if (!is_wide && !is_high) {
      return absl::InvalidArgumentError(absl::StrCat(Quoted(named), " is ", TypeOf(named.tensor),
                                                     ", and [", shape[0], ",1] or [1,", shape[1],
                                                     "] would be right"));
    }
    Magnitude magnitude = {named.tensor, Magnitude::Rule::kLycoris,
                           is_high ? Magnitude::Axis::kRows : Magnitude::Axis::kColumns};
    magnitude.values.data = named.tensor.data.Reshaped({own.elements()});
    return magnitude;
  }

  absl::StatusOr<std::optional<WeightChange>> ReadBias() const {
    const NamedTensor* scaled = Find(Role::kUpBias);
    const NamedTensor* plain = Find(Role::kDiffBias);
    if (scaled == nullptr && plain == nullptr) return std::nullopt;
    if (scaled != nullptr && plain != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(*scaled), " and ", Quoted(*plain), " change one bias"));
    }
    const NamedTensor& named = scaled != nullptr ? *scaled : *plain;
    if (!module_.bias) {
      return absl::InvalidArgumentError(absl::StrCat(Quoted(named), " changes the bias of ",
                                                     module_.component, "/", module_.path,
                                                     ", which has none"));
    }
    WeightChange bias;
    bias.shape = Stacked(*module_.bias);
    ASSIGN_OR_RETURN(StoredTensor diff, InShape(named, bias.shape));
    bias.delta = Difference{std::move(diff)};
    bias.scale = scaled != nullptr ? scale_ : 1;
    return bias;
  }

  // Refuses what would have no effect without a delta of the weight. An alpha alone is left behind
  // by programs that drop empty deltas.
  absl::Status CheckNoneOfWeight() const {
    for (const auto& [role, named] : tensors_) {
      if (role == Role::kAlpha || role == Role::kScale || role == Role::kDiffBias) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(named), " is of a module for which the file has no delta"));
    }
    return absl::OkStatus();
  }

  absl::Status AddParts(WeightChange whole, std::string (Module::*name)() const) {
    const auto count = static_cast<int64_t>(modules_.size());
    for (int64_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(WeightChange part, count == 1 ? whole : RowsOfChange(whole, i, count));
      part.weight = (modules_[i]->*name)();
      change_.changes.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  // The i-th of `count` equal parts.
  absl::StatusOr<WeightChange> RowsOfChange(const WeightChange& whole, int64_t i,
                                            int64_t count) const {
    const int64_t rows = whole.shape[0] / count;
    WeightChange part = whole;
    std::vector<int64_t> dims = whole.shape.dims();
    dims[0] = rows;
    part.shape = Shape(std::move(dims));
    if (auto* low = std::get_if<LowRank>(&part.delta)) {
      low->up = RowsOf(low->up, i * rows, (i + 1) * rows);
    } else if (auto* difference = std::get_if<Difference>(&part.delta)) {
      difference->diff = RowsOf(difference->diff, i * rows, (i + 1) * rows);
    } else {
      return RefuseParts();
    }
    if (part.magnitude) return RefuseParts();
    return part;
  }

  absl::Status RefuseParts() const {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(tensors_.begin()->second),
        " changes query, key and value in one by LoHa, LoKr or DoRA; of these OpenCLIP's fused "
        "projections only plain LoRA and differences are read"));
  }

  const std::vector<const Module*>& modules_;
  const Module& module_;
  const ModuleTensors& tensors_;
  const PeftScales& peft_;
  double scale_ = 1;  // the weight's delta's
  ModuleChange change_;
};

}  // namespace

absl::StatusOr<ModuleChange> MakeChanges(const std::vector<const Module*>& modules,
                                         const ModuleTensors& tensors, const PeftScales& peft) {
  return ModuleReader(modules, tensors, peft).Read();
}

}  // namespace latentd::adapters
