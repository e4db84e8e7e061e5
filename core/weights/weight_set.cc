#include "core/weights/weight_set.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/safetensors.h"

namespace latentd::weights {
namespace {

using device::Shape;

constexpr size_t kMaxListed = 50;
constexpr absl::string_view kTextPrefix = "text_model.";

// Attention in VAEs of the SD 1.5 age: today's spelling, theirs.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 4> kOldAttention = {
    {{".to_q.", ".query."},
     {".to_k.", ".key."},
     {".to_v.", ".value."},
     {".to_out.0.", ".proj_attn."}}};

// What else a tensor may be called on disk.
std::vector<std::string> OtherSpellings(absl::string_view name) {
  std::vector<std::string> spellings;
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return spellings;
  const absl::string_view component = name.substr(0, slash + 1);
  const absl::string_view rest = name.substr(slash + 1);
  if (absl::StartsWith(rest, kTextPrefix)) {
    spellings.push_back(absl::StrCat(component, rest.substr(kTextPrefix.size())));
  } else {
    spellings.push_back(absl::StrCat(component, kTextPrefix, rest));
  }
  for (const auto& [today, old] : kOldAttention) {
    if (absl::StrContains(name, today))
      spellings.push_back(absl::StrReplaceAll(name, {{today, old}}));
  }
  return spellings;
}

bool SameShape(const Shape& stored, const Shape& wanted) {
  if (stored == wanted) return true;
  return stored.rank() == 4 && wanted.rank() == 2 && stored[0] == wanted[0] &&
         stored[1] == wanted[1] && stored[2] == 1 && stored[3] == 1;
}

absl::Status UnusableDType(absl::string_view name, const StoredTensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " of ", tensor.file,
                                                 " has the dtype ", tensor.unusable_dtype,
                                                 "; F64, F32, F16, BF16, I64 and U8 can be used"));
}

// As torch's to(float32) rounds them.
StoredTensor Rounded(const StoredTensor& doubles) {
  device::Buffer floats = device::Buffer::Allocate(device::DType::kF32, doubles.data.shape());
  const auto* from = static_cast<const char*>(doubles.data.data());
  auto* to = static_cast<float*>(floats.data());
  for (int64_t i = 0; i < floats.elements(); ++i) {
    double value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(value)), sizeof(value));
    to[i] = static_cast<float>(value);
  }
  ReleasePages(doubles);
  return {.data = std::move(floats), .file = doubles.file, .origin = doubles.origin};
}

bool AreDoubles(const StoredTensor& tensor) {
  return tensor.unusable_dtype == kDoubles && tensor.data.has_memory();
}

}  // namespace

absl::Status CheckTensor(const graph::Node& weight, const absl::StatusOr<StoredTensor>& found) {
  if (!found.ok()) return found.status();
  const device::ConstBuffer& data = found->data;
  const auto type = [](device::DType dtype, const Shape& shape) {
    return absl::StrCat(device::Name(dtype), shape.ToString());
  };
  if (SameShape(data.shape(), weight.shape) && data.dtype() == weight.dtype) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", weight.name, " of ", found->file, " is ", type(data.dtype(), data.shape()),
      ", the network wants ", type(weight.dtype, weight.shape)));
}

void WeightSet::Add(absl::string_view component, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    StoredTensor& added = tensors_[absl::StrCat(component, "/", name)];
    added = AreDoubles(tensor) ? Rounded(tensor) : tensor;
    if (added.digest == nullptr && added.unusable_dtype.empty()) {
      added.digest = std::make_shared<const weights::ContentDigest>(added.data);
    }
  }
}

const StoredTensor* WeightSet::Lookup(absl::string_view name) const {
  if (const auto tensor = tensors_.find(name); tensor != tensors_.end()) return &tensor->second;
  for (const std::string& spelling : OtherSpellings(name)) {
    if (const auto tensor = tensors_.find(spelling); tensor != tensors_.end()) {
      return &tensor->second;
    }
  }
  return nullptr;
}

std::string WeightSet::PlaceOf(absl::string_view name) const {
  const absl::string_view component = name.substr(0, name.find('/') + 1);
  for (const auto& [other, tensor] : tensors_) {
    if (!component.empty() && absl::StartsWith(other, component)) {
      return absl::StrCat(" in ", std::filesystem::path(tensor.file).parent_path().string());
    }
  }
  return ": its component has no tensors";
}

absl::StatusOr<StoredTensor> WeightSet::Find(absl::string_view name) const {
  const StoredTensor* tensor = Lookup(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat("tensor ", name, " is missing", PlaceOf(name)));
  }
  if (!tensor->unusable_dtype.empty()) return UnusableDType(name, *tensor);
  return *tensor;
}

absl::StatusOr<Digest> WeightSet::ContentDigest(const graph::Graph& graph) const {
  std::string contents;
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const StoredTensor* tensor = Lookup(graph.node(id).name);
    const bool readable = tensor != nullptr && tensor->digest != nullptr;
    absl::StrAppend(&contents, readable ? tensor->digest->Get().ToString() : "none", "\n");
  }
  RETURN_IF_ERROR(CheckFiles(graph));
  return DigestOf(contents);
}

absl::Status WeightSet::CheckFiles(const graph::Graph& graph) const {
  std::set<const CheckpointFile*> checked;
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const StoredTensor* tensor = Lookup(graph.node(id).name);
    if (tensor == nullptr || !checked.insert(tensor->origin.get()).second) continue;
    RETURN_IF_ERROR(CheckUnchanged(*tensor));
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const CheckpointFile>> WeightSet::Files() const {
  std::set<std::shared_ptr<const CheckpointFile>> files;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.origin != nullptr) files.insert(tensor.origin);
  }
  return {files.begin(), files.end()};
}

device::DType WeightSet::StoredDType(absl::string_view name) const {
  const StoredTensor* tensor = Lookup(name);
  const bool usable = tensor != nullptr && tensor->unusable_dtype.empty();
  return usable ? tensor->data.dtype() : device::DType::kF32;
}

absl::Status WeightSet::Check(const graph::Graph& graph) const {
  std::vector<std::string> problems;
  bool only_missing = true;
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const graph::Node& weight = graph.node(id);
    const absl::Status status = CheckTensor(weight, Find(weight.name));
    if (status.ok()) continue;
    only_missing = only_missing && absl::IsNotFound(status);
    problems.emplace_back(status.message());
  }
  if (problems.empty()) return CheckFiles(graph);
  const std::string message = absl::StrCat("the checkpoint does not fit the network: ",
                                           ListSome(problems, kMaxListed, "; "));
  return only_missing ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace latentd::weights
