#include "core/adapters/lora/module_delta.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::adapters {
namespace {

using device::Shape;
using weights::StoredTensor;

constexpr size_t kKeyBytes = 200;

struct RoleRow {
  Role role;
  absl::string_view name;
};

// Names of roles in messages.
constexpr RoleRow kRoleNames[] = {
    {Role::kDown, "down (lora_down, lora_A)"},
    {Role::kUp, "up (lora_up, lora_B)"},
    {Role::kMid, "mid (lora_mid)"},
    {Role::kHadaW1A, "hada_w1_a"},
    {Role::kHadaW1B, "hada_w1_b"},
    {Role::kHadaW2A, "hada_w2_a"},
    {Role::kHadaW2B, "hada_w2_b"},
    {Role::kHadaT1, "hada_t1"},
    {Role::kHadaT2, "hada_t2"},
    {Role::kLokrW1, "lokr_w1"},
    {Role::kLokrW1A, "lokr_w1_a"},
    {Role::kLokrW1B, "lokr_w1_b"},
    {Role::kLokrW2, "lokr_w2"},
    {Role::kLokrW2A, "lokr_w2_a"},
    {Role::kLokrW2B, "lokr_w2_b"},
    {Role::kLokrT2, "lokr_t2"},
};

absl::string_view NameOf(Role role) {
  const auto row =
      absl::c_find_if(kRoleNames, [&](const RoleRow& row) { return row.role == role; });
  return row == std::end(kRoleNames) ? "another" : row->name;
}

std::string Describe(const NamedTensor& named) {
  return absl::StrCat("tensor ", Excerpt(named.key, kKeyBytes), " is ", TypeOf(named.tensor));
}

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> dims = shape.dims();
  while (!dims.empty() && dims.back() == 1) dims.pop_back();
  return dims;
}

bool IsAlike(const Shape& a, const Shape& b) { return WithoutOnes(a) == WithoutOnes(b); }

// The size of a dimension, of which there may be fewer.
int64_t SizeAt(const Shape& shape, int index) { return index < shape.rank() ? shape[index] : 1; }

// The tensors of one module by role, in the shapes that a weight's own shape asks for.
class DeltaReader {
 public:
  DeltaReader(const ModuleTensors& tensors, const Shape& shape)
      : tensors_(tensors), shape_(shape), out_(SizeAt(shape, 0)), in_(SizeAt(shape, 1)) {
    for (int i = 2; i < shape.rank(); ++i) taps_ *= shape[i];
  }

  bool Has(Role role) const { return tensors_.contains(role); }

  absl::StatusOr<ModuleDelta> ReadLowRank() const {
    RETURN_IF_ERROR(CheckMatrix());
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(Role::kDown, 0));
    LowRank delta;
    RETURN_IF_ERROR(CheckTaps(Role::kMid));
    if (Has(Role::kMid)) {
      ASSIGN_OR_RETURN(delta.down, Take(Role::kDown, {rank, in_}));
      ASSIGN_OR_RETURN(delta.mid, Take(Role::kMid, WithTaps(rank, rank)));
    } else {
      ASSIGN_OR_RETURN(delta.down, TakeColumns(Role::kDown, rank));
    }
    ASSIGN_OR_RETURN(delta.up, Take(Role::kUp, {out_, rank}));
    return ModuleDelta{std::move(delta), rank};
  }

  absl::StatusOr<ModuleDelta> ReadHadamard() const {
    RETURN_IF_ERROR(CheckMatrix());
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(Role::kHadaW1B, 0));
    ASSIGN_OR_RETURN(const int64_t second, RankOf(Role::kHadaW2B, 0));
    Hadamard delta;
    RETURN_IF_ERROR(CheckTaps(Role::kHadaT1));
    RETURN_IF_ERROR(CheckTaps(Role::kHadaT2));
    if (Has(Role::kHadaT1) || Has(Role::kHadaT2)) {
      RETURN_IF_ERROR(ReadTucker(Role::kHadaW1A, Role::kHadaW1B, Role::kHadaT1, rank, delta.w1_a,
                                 delta.w1_b, delta.t1));
      RETURN_IF_ERROR(ReadTucker(Role::kHadaW2A, Role::kHadaW2B, Role::kHadaT2, second, delta.w2_a,
                                 delta.w2_b, delta.t2));
      return ModuleDelta{std::move(delta), rank};
    }
    ASSIGN_OR_RETURN(delta.w1_a, Take(Role::kHadaW1A, {out_, rank}));
    ASSIGN_OR_RETURN(delta.w1_b, TakeColumns(Role::kHadaW1B, rank));
    ASSIGN_OR_RETURN(delta.w2_a, Take(Role::kHadaW2A, {out_, second}));
    ASSIGN_OR_RETURN(delta.w2_b, TakeColumns(Role::kHadaW2B, second));
    return ModuleDelta{std::move(delta), rank};
  }

  absl::StatusOr<ModuleDelta> ReadKronecker() const {
    RETURN_IF_ERROR(CheckMatrix());
    Kronecker delta;
    ASSIGN_OR_RETURN(const Factor outer, ReadOuter(delta));
    RETURN_IF_ERROR(ReadInner(outer, delta));
    int64_t rank = 0;
    if (delta.w2_b) {
      rank = delta.w2_b->data.shape()[0];
    } else if (delta.w1_b) {
      rank = delta.w1_b->data.shape()[0];
    }
    return ModuleDelta{std::move(delta), rank};
  }

  absl::StatusOr<ModuleDelta> ReadDifference() const {
    ASSIGN_OR_RETURN(StoredTensor diff, Take(Role::kDiff, shape_));
    return ModuleDelta{Difference{std::move(diff)}, 0};
  }

 private:
  // Sizes of the first factor of a Kronecker product.
  struct Factor {
    int64_t rows, columns;
  };

  absl::Status CheckMatrix() const {
    if (shape_.rank() >= 2) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(tensors_.begin()->second), ", but its weight is a vector, ",
                     shape_.ToString(), ", which only a difference (diff, w_norm) changes"));
  }

  // A middle part is a convolution's.
  absl::Status CheckTaps(Role middle) const {
    constexpr int kConvolutionRank = 4;
    const auto found = tensors_.find(middle);
    if (found == tensors_.end() || shape_.rank() == kConvolutionRank) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(Describe(found->second), ", but its weight is ",
                                                   "no convolution, ", shape_.ToString()));
  }

  // A whole factor has no parts beside it.
  absl::Status CheckAlone(Role whole, std::initializer_list<Role> parts) const {
    for (const Role part : parts) {
      if (!Has(part)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", Excerpt(tensors_.at(whole).key, kKeyBytes), " and ",
                       Excerpt(tensors_.at(part).key, kKeyBytes), " are one factor in two ways"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const NamedTensor*> Find(Role role) const {
    const auto found = tensors_.find(role);
    if (found != tensors_.end()) return &found->second;
    return absl::InvalidArgumentError(absl::StrCat("tensor ",
                                                   Excerpt(tensors_.begin()->second.key, kKeyBytes),
                                                   " has no tensor ", NameOf(role), " beside it"));
  }

  absl::StatusOr<StoredTensor> Take(Role role, const Shape& wanted) const {
    ASSIGN_OR_RETURN(const NamedTensor* named, Find(role));
    return InShape(*named, wanted);
  }

  // A tensor [rank, in, kh, kw], or with the last three in one.
  absl::StatusOr<StoredTensor> TakeColumns(Role role, int64_t rank) const {
    ASSIGN_OR_RETURN(const NamedTensor* named, Find(role));
    const Shape flat({rank, in_ * taps_});
    if (IsAlike(named->tensor.data.shape(), flat)) return InShape(*named, flat);
    ASSIGN_OR_RETURN(StoredTensor tensor, InShape(*named, WithTaps(rank, in_)));
    tensor.data = tensor.data.Reshaped(flat);
    return tensor;
  }

  // [a, b, kh, kw] with the weight's own.
  Shape WithTaps(int64_t a, int64_t b) const {
    std::vector<int64_t> dims = shape_.dims();
    dims[0] = a;
    dims[1] = b;
    return Shape(std::move(dims));
  }

  // The size of a dimension of a tensor, as a rank.
  absl::StatusOr<int64_t> RankOf(Role role, int dimension) const {
    ASSIGN_OR_RETURN(const NamedTensor* named, Find(role));
    const int64_t rank = SizeAt(named->tensor.data.shape(), dimension);
    if (rank >= 1 && rank <= kMostRank) return rank;
    return absl::InvalidArgumentError(absl::StrCat(Describe(*named), ": its rank is ", rank,
                                                   ", and those from 1 to ", kMostRank,
                                                   " are read"));
  }

  absl::Status ReadTucker(Role a, Role b, Role core, int64_t rank, StoredTensor& a_tensor,
                          StoredTensor& b_tensor, std::optional<StoredTensor>& core_tensor) const {
    ASSIGN_OR_RETURN(a_tensor, Take(a, {rank, out_}));
    ASSIGN_OR_RETURN(b_tensor, Take(b, {rank, in_}));
    ASSIGN_OR_RETURN(core_tensor, Take(core, WithTaps(rank, rank)));
    return absl::OkStatus();
  }

  absl::Status RefuseFactors(Role role, const NamedTensor& named) const {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(named), ", and ", NameOf(role), " of a weight of ", shape_.ToString(),
                     " has rows and columns that divide the weight's"));
  }

  bool Divides(const Factor& factor) const {
    return factor.rows >= 1 && factor.columns >= 1 && out_ % factor.rows == 0 &&
           in_ % factor.columns == 0;
  }

  absl::StatusOr<Factor> ReadOuter(Kronecker& delta) const {
    if (Has(Role::kLokrW1)) {
      RETURN_IF_ERROR(CheckAlone(Role::kLokrW1, {Role::kLokrW1A, Role::kLokrW1B}));
      ASSIGN_OR_RETURN(const NamedTensor* named, Find(Role::kLokrW1));
      const Shape& shape = named->tensor.data.shape();
      const Factor factor = {SizeAt(shape, 0), SizeAt(shape, 1)};
      if (!Divides(factor)) return RefuseFactors(Role::kLokrW1, *named);
      ASSIGN_OR_RETURN(delta.w1, InShape(*named, {factor.rows, factor.columns}));
      return factor;
    }
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(Role::kLokrW1B, 0));
    ASSIGN_OR_RETURN(const NamedTensor* a, Find(Role::kLokrW1A));
    ASSIGN_OR_RETURN(const NamedTensor* b, Find(Role::kLokrW1B));
    const Factor factor = {SizeAt(a->tensor.data.shape(), 0), SizeAt(b->tensor.data.shape(), 1)};
    if (!Divides(factor)) return RefuseFactors(Role::kLokrW1A, *a);
    ASSIGN_OR_RETURN(delta.w1_a, InShape(*a, {factor.rows, rank}));
    ASSIGN_OR_RETURN(delta.w1_b, InShape(*b, {rank, factor.columns}));
    return factor;
  }

  absl::Status ReadInner(const Factor& outer, Kronecker& delta) const {
    const int64_t rows = out_ / outer.rows, columns = in_ / outer.columns;
    RETURN_IF_ERROR(CheckTaps(Role::kLokrT2));
    if (Has(Role::kLokrW2)) {
      RETURN_IF_ERROR(CheckAlone(Role::kLokrW2, {Role::kLokrW2A, Role::kLokrW2B, Role::kLokrT2}));
      ASSIGN_OR_RETURN(delta.w2, Take(Role::kLokrW2, WithTaps(rows, columns)));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const int64_t rank, RankOf(Role::kLokrW2B, 0));
    if (Has(Role::kLokrT2)) {
      ASSIGN_OR_RETURN(delta.w2_a, Take(Role::kLokrW2A, {rank, rows}));
      ASSIGN_OR_RETURN(delta.w2_b, Take(Role::kLokrW2B, {rank, columns}));
      ASSIGN_OR_RETURN(delta.t2, Take(Role::kLokrT2, WithTaps(rank, rank)));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(delta.w2_a, Take(Role::kLokrW2A, {rows, rank}));
    ASSIGN_OR_RETURN(delta.w2_b, Take(Role::kLokrW2B, {rank, columns * taps_}));
    return absl::OkStatus();
  }

  const ModuleTensors& tensors_;
  const Shape& shape_;
  const int64_t out_, in_;
  int64_t taps_ = 1;  // kh * kw
};

struct DeltaKind {
  Role first, last;  // its roles, of which any says the kind
  absl::StatusOr<ModuleDelta> (DeltaReader::*read)() const;
};

constexpr DeltaKind kDeltaKinds[] = {
    {Role::kDown, Role::kMid, &DeltaReader::ReadLowRank},
    {Role::kHadaW1A, Role::kHadaT2, &DeltaReader::ReadHadamard},
    {Role::kLokrW1, Role::kLokrT2, &DeltaReader::ReadKronecker},
    {Role::kDiff, Role::kDiff, &DeltaReader::ReadDifference},
};

// Null: none.
const NamedTensor* FirstOf(const ModuleTensors& tensors, const DeltaKind& kind) {
  const auto first = tensors.lower_bound(kind.first);
  return first == tensors.end() || first->first > kind.last ? nullptr : &first->second;
}

}  // namespace

std::string TypeOf(const StoredTensor& tensor) {
  const std::string dtype = tensor.unusable_dtype.empty()
                                ? std::string(device::Name(tensor.data.dtype()))
                                : tensor.unusable_dtype;
  return absl::StrCat(dtype, Excerpt(tensor.data.shape().ToString(), kKeyBytes));
}

absl::StatusOr<StoredTensor> InShape(const NamedTensor& named, const Shape& shape) {
  if (!IsAlike(named.tensor.data.shape(), shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(named), ", and ", shape.ToString(), " would be right"));
  }
  StoredTensor tensor = named.tensor;
  tensor.data = tensor.data.Reshaped(shape);
  return tensor;
}

absl::StatusOr<std::optional<ModuleDelta>> FindDelta(const ModuleTensors& tensors,
                                                     const Shape& shape) {
  const DeltaKind* found = nullptr;
  for (const DeltaKind& kind : kDeltaKinds) {
    const NamedTensor* first = FirstOf(tensors, kind);
    if (first == nullptr) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", Excerpt(FirstOf(tensors, *found)->key, kKeyBytes), " and ",
                       Excerpt(first->key, kKeyBytes), " change one weight in two ways"));
    }
    found = &kind;
  }
  if (found == nullptr) return std::nullopt;
  const DeltaReader reader(tensors, shape);
  ASSIGN_OR_RETURN(ModuleDelta delta, (reader.*found->read)());
  return delta;
}

}  // namespace latentd::adapters
