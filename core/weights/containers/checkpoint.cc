#include "core/weights/containers/checkpoint.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/weights/containers/checkpoint_assembly.h"

namespace latentd::weights {
namespace {

// It becomes a part of a file's name.
bool IsPlainWord(absl::string_view word) {
  return std::all_of(word.begin(), word.end(), [](unsigned char byte) {
    return absl::ascii_isalnum(byte) || byte == '_' || byte == '-';
  });
}

absl::Status CheckVariantName(const std::string& variant) {
  if (IsPlainWord(variant)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variant \"", Excerpt(variant), "\" must be a word of letters, digits, _ and -: fp16"));
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const CheckpointPaths& paths, DigestArchive digests) {
  RETURN_IF_ERROR(CheckVariantName(paths.variant));
  const Reading reading{.variant = paths.variant,
                        .said = {},
                        .records = std::make_shared<FileRecords>(),
                        .digests = std::move(digests)};
  ASSIGN_OR_RETURN(CheckpointContents contents, AssembleCheckpoint(paths, reading));
  return Checkpoint(paths.path, reading.records, std::move(contents));
}

Checkpoint::Checkpoint(std::string path, std::shared_ptr<FileRecords> records,
                       CheckpointContents contents)
    : path_(std::move(path)), records_(std::move(records)), contents_(std::move(contents)) {
  for (const auto& [name, source] : contents_.components) {
    components_.emplace(name, source->component());
  }
}

absl::StatusOr<const ComponentSource*> Checkpoint::Find(absl::string_view component) const {
  if (const ComponentSource* source = contents_.Find(component)) return source;
  const std::string names = absl::StrJoin(
      components_, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); });
  return absl::NotFoundError(absl::StrCat(index(), " names no component ", component, "; it names ",
                                          names.empty() ? "none" : names));
}

std::string Checkpoint::ConfigName(absl::string_view component) const {
  if (const ComponentSource* source = contents_.Find(component)) return source->ConfigName();
  return absl::StrCat(path_, "/", component, "/config.json");
}

absl::StatusOr<std::string> Checkpoint::ConfigText(absl::string_view component) const {
  ASSIGN_OR_RETURN(const ComponentSource* source, Find(component));
  return source->ConfigText();
}

absl::StatusOr<std::string> Checkpoint::SchedulerConfigText() const {
  return ConfigText("scheduler");
}

absl::StatusOr<TokenizerSource> Checkpoint::Tokenizer(absl::string_view component) const {
  ASSIGN_OR_RETURN(const ComponentSource* source, Find(component));
  return source->Tokenizer();
}

FileReader Checkpoint::reader() const { return Reading{"", {}, records_, {}}.reader(); }

absl::StatusOr<SourceMap> Checkpoint::LoadWeights(absl::string_view component) const {
  ASSIGN_OR_RETURN(const ComponentSource* source, Find(component));
  return source->LoadWeights();
}

absl::StatusOr<WeightSize> Checkpoint::SizeOf(absl::string_view component) const {
  ASSIGN_OR_RETURN(const SourceMap weights, LoadWeights(component));
  WeightSize size;
  std::set<const void*> counted;  // a tensor may be in several weights
  for (const auto& [name, source] : weights) {
    bool is_there = true;
    for (const StoredTensor& tensor : source.from) {
      is_there = is_there && tensor.data.has_memory();
      if (!tensor.data.has_memory() || !counted.insert(tensor.data.data()).second) continue;
      size.bytes += static_cast<int64_t>(tensor.data.bytes());
    }
    if (is_there) size.elements += source.shape().elements();
  }
  return size;
}

}  // namespace latentd::weights
