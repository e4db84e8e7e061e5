#include "core/weights/weight_set.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/scaled_source.h"

namespace latentd::weights {
namespace {

constexpr size_t kMaxListed = 50;

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

// Marks those of `tensors` that are `base`'s too. Copies of a tensor share its digest.
void MarkThoseOf(const Source& base, std::vector<StoredTensor>& tensors) {
  for (StoredTensor& tensor : tensors) {
    const auto is_it = [&](const StoredTensor& own) { return own.digest == tensor.digest; };
    tensor.of_base = tensor.digest != nullptr && absl::c_any_of(base.from, is_it);
  }
}

bool AreDoubles(const StoredTensor& tensor) {
  return tensor.unusable_dtype == kDoubles && tensor.data.has_memory();
}

}  // namespace

std::shared_ptr<const WeightSet> WeightSet::Over(std::shared_ptr<const WeightSet> base,
                                                 SourceMap overlay, std::string name) {
  auto set = std::make_shared<WeightSet>(base->store_, std::move(name));
  for (auto& [weight, source] : overlay) {
    if (const Source* own = base->Lookup(weight)) MarkThoseOf(*own, source.from);
    set->AddSource(weight, std::move(source));
  }
  set->base_ = std::move(base);
  return set;
}

void WeightSet::Add(absl::string_view component, SourceMap sources) {
  for (auto& [name, source] : sources) {
    const bool rounds = source.make == nullptr && AreDoubles(source.from[0]);
    AddSource(absl::StrCat(component, "/", name),
              rounds ? Source::Of(Rounded(source.from[0])) : std::move(source));
  }
}

void WeightSet::Add(absl::string_view component, const TensorMap& tensors) {
  Add(component, SourcesOf(tensors));
}

void WeightSet::AddSource(std::string name, Source source) {
  for (StoredTensor& tensor : source.from) {
    if (tensor.digest != nullptr || !tensor.unusable_dtype.empty()) continue;
    tensor.digest = std::make_shared<const weights::ContentDigest>(tensor.data);
  }
  sources_.insert_or_assign(std::move(name), std::move(source));
}

const Source* WeightSet::Lookup(absl::string_view name) const {
  if (const auto source = sources_.find(name); source != sources_.end()) return &source->second;
  return base_ == nullptr ? nullptr : base_->Lookup(name);
}

std::string WeightSet::PlaceOf(absl::string_view name) const {
  const absl::string_view component = name.substr(0, name.find('/') + 1);
  for (const auto& [other, source] : sources_) {
    if (!component.empty() && absl::StartsWith(other, component)) {
      return absl::StrCat(" in ",
                          std::filesystem::path(source.from[0].file).parent_path().string());
    }
  }
  return base_ == nullptr ? ": its component has no tensors" : base_->PlaceOf(name);
}

absl::StatusOr<Source> WeightSet::Find(absl::string_view name) const {
  if (const Source* source = Lookup(name)) return *source;
  return absl::NotFoundError(absl::StrCat("tensor ", name, " is missing", PlaceOf(name)));
}

absl::btree_map<std::string, device::Shape> WeightSet::Shapes() const {
  absl::btree_map<std::string, device::Shape> shapes;
  for (const WeightSet* set = this; set != nullptr; set = set->base_.get()) {
    for (const auto& [name, source] : set->sources_) shapes.emplace(name, source.shape());
  }
  return shapes;
}

absl::StatusOr<Digest> WeightSet::ContentDigest(const graph::Graph& graph) const {
  const std::vector<graph::ValueId> read = graph.Select(graph::Op::kWeight);
  std::vector<std::string> each(read.size());
  const auto describe = [&](size_t i) {
    const Source* source = Lookup(graph.node(read[i]).name);
    const bool readable = source != nullptr && source->from[0].unusable_dtype.empty();
    each[i] = absl::StrCat(readable ? source->Content() : "none", "\n");
  };
  constexpr size_t kWorthAThread = 128;
  const auto most = static_cast<size_t>(std::min(UsableCpus(), kMostReaders));
  SplitWorkOn(static_cast<int>(std::clamp<size_t>(read.size() / kWorthAThread, 1, most)),
              static_cast<int>(read.size()), [&](int i) { describe(static_cast<size_t>(i)); });
  const std::string contents = absl::StrJoin(each, "");
  RETURN_IF_ERROR(CheckFiles(graph));
  return DigestOf(contents);
}

absl::Status WeightSet::CheckFiles(const graph::Graph& graph) const {
  std::set<const CheckpointFile*> checked;
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const Source* source = Lookup(graph.node(id).name);
    if (source == nullptr) continue;
    for (const StoredTensor& tensor : source->from) {
      if (checked.insert(tensor.origin.get()).second) RETURN_IF_ERROR(CheckUnchanged(tensor));
    }
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const CheckpointFile>> WeightSet::Files() const {
  std::set<std::shared_ptr<const CheckpointFile>> files;
  for (const WeightSet* set = this; set != nullptr; set = set->base_.get()) {
    for (const auto& [name, source] : set->sources_) {
      for (const StoredTensor& tensor : source.from) {
        if (tensor.origin != nullptr) files.insert(tensor.origin);
      }
    }
  }
  return {files.begin(), files.end()};
}

absl::Status WeightSet::Check(const graph::Graph& graph) const {
  std::vector<std::string> problems;
  bool only_missing = true;
  for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
    const graph::Node& weight = graph.node(id);
    const absl::StatusOr<Source> found = Find(weight.name);
    const absl::Status status = found.ok() ? CheckFits(weight, *found) : found.status();
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
