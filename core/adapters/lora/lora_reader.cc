#include "core/adapters/lora/lora_reader.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/lora_base.h"
#include "core/adapters/lora/lora_keys.h"
#include "core/adapters/lora/module_change.h"
#include "core/adapters/lora/peft_scales.h"
#include "core/adapters/lora/tensor_values.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/text/text.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/weights/containers/safetensors.h"

namespace latentd::adapters {
namespace {

namespace fs = std::filesystem;

using weights::StoredTensor;

constexpr size_t kMostListed = 3;
constexpr size_t kKeyExcerpt = 200;
constexpr size_t kMostConfigBytes = size_t{8} << 20;
constexpr absl::string_view kPeftFile = "adapter_model.safetensors";
constexpr absl::string_view kPeftConfig = "adapter_config.json";
constexpr absl::string_view kNetworkFile = "diffusion_pytorch_model.safetensors";
constexpr absl::string_view kFp16NetworkFile = "diffusion_pytorch_model.fp16.safetensors";
constexpr absl::string_view kNetworkConfig = "config.json";

std::string Some(std::vector<std::string> keys) {
  for (std::string& key : keys) key = Excerpt(key, kKeyExcerpt);
  return ListSome(keys, kMostListed);
}

bool IsScalarRole(Role role) { return role == Role::kAlpha || role == Role::kScale; }

// Collects a file's tensors by the modules that they are of, and makes the changes of each.
class LoraBuilder {
 public:
  LoraBuilder(const LoraFile& file, const ModelModules& modules, Values values)
      : file_(file), modules_(modules), values_(values) {}

  absl::StatusOr<Lora> Build(std::string name) && {
    lora_.name = std::move(name);
    lora_.metadata = ReadLoraMetadata(file_.metadata);
    SortKeys();
    RETURN_IF_ERROR(RefuseOtherKinds());
    RETURN_IF_ERROR(CheckBase(file_.path, file_.tensors, file_.metadata, modules_.text_features()));
    RETURN_IF_ERROR(ReadScales());
    RETURN_IF_ERROR(Collect());
    RETURN_IF_ERROR(TakeFloats());
    RETURN_IF_ERROR(CheckValues());
    RETURN_IF_ERROR(MakeAll());
    Warn();
    return std::move(lora_);
  }

 private:
  struct Change {
    std::vector<const Module*> modules;
    ModuleTensors tensors;
  };

  template <typename... Text>
  absl::Status Refuse(const Text&... text) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.path, text...));
  }

  void SortKeys() {
    for (const auto& [key, tensor] : file_.tensors) {
      if (!IsLeftover(key)) keys_.push_back(key);
    }
    absl::c_sort(keys_);
  }

  absl::Status RefuseOtherKinds() const {
    std::string kind;
    std::vector<std::string> keys;
    for (const std::string& key : keys_) {
      const std::string own = OtherKind(NormalKey(key), file_.tensors.at(key));
      if (own.empty()) continue;
      if (kind.empty()) kind = own;
      if (own == kind) keys.push_back(key);
    }
    if (keys.empty()) return absl::OkStatus();
    return Refuse(" holds ", kind, " (", keys.size(), " tensors: ", Some(keys),
                  "), which is not read: LoRA, LoHa, LoKr, DoRA and whole differences for Stable "
                  "Diffusion 1, 2 and XL are");
  }

  absl::Status ReadScales() {
    if (!file_.adapter_config.empty()) {
      ASSIGN_OR_RETURN(peft_, PeftScales::OfConfig(file_.adapter_config,
                                                   absl::StrCat(file_.path, ": ", kPeftConfig)));
      return absl::OkStatus();
    }
    const auto said = file_.metadata.find(PeftScales::kMetadataKey);
    if (said == file_.metadata.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        peft_, PeftScales::OfMetadata(said->second,
                                      absl::StrCat(file_.path, ": ", PeftScales::kMetadataKey)));
    return absl::OkStatus();
  }

  absl::Status Collect() {
    std::vector<std::string> unused;
    for (const std::string& key : keys_) {
      const std::optional<LoraKey> parts = SplitKey(NormalKey(key));
      const auto modules = parts ? modules_.Find(parts->module) : std::vector<const Module*>();
      if (modules.empty()) {
        unused.push_back(key);
      } else {
        RETURN_IF_ERROR(AddTensor(key, parts->role, modules));
      }
    }
    if (!unused.empty()) return RefuseUnused(unused);
    return keys_.empty() ? Refuse(" has no tensors") : absl::OkStatus();
  }

  absl::Status AddTensor(const std::string& key, Role role,
                         const std::vector<const Module*>& modules) {
    Change& change = changes_[{modules[0], modules.size()}];
    change.modules = modules;
    const auto [known, is_new] =
        change.tensors.emplace(role, NamedTensor{key, file_.tensors.at(key)});
    if (is_new) return absl::OkStatus();
    return Refuse(": the tensors ", Excerpt(known->second.key, kKeyExcerpt), " and ",
                  Excerpt(key, kKeyExcerpt), " are the same of one module, ", modules[0]->component,
                  "/", modules[0]->path, ": it is not clear which one is meant");
  }

  absl::Status RefuseUnused(const std::vector<std::string>& unused) const {
    const bool is_lora =
        absl::c_any_of(keys_, [](const std::string& key) { return SplitKey(NormalKey(key)); });
    if (!is_lora) return Refuse(" is no LoRA: none of its tensors is one's (", Some(keys_), ")");
    const absl::string_view said = ModelOfMetadata(file_.metadata);
    return Refuse(": ", unused.size(), " of its ", keys_.size(),
                  " tensors are of no module of the model, so that the LoRA would not have its "
                  "effect: ",
                  Some(unused), "; it is for another model",
                  said.empty() ? "" : absl::StrCat(" (it says: ", said, ")"),
                  ", or of a kind that is not read");
  }

  absl::Status TakeFloats() {
    for (auto& [place, change] : changes_) {
      for (auto& [role, named] : change.tensors) {
        if (IsScalarRole(role)) continue;
        RETURN_IF_ERROR(TakeFloatsOf(named));
        floats_.push_back(&named);
      }
    }
    return absl::OkStatus();
  }

  // Doubles are rounded first: what f32 does not hold becomes an infinity.
  absl::Status TakeFloatsOf(NamedTensor& named) const {
    const std::string key = Excerpt(named.key, kKeyExcerpt);
    if (!HasFloats(named.tensor)) {
      return Refuse(": tensor ", key, " is ", TypeOf(named.tensor),
                    "; F64, F32, F16, BF16, F8_E4M3 and F8_E5M2 can be used");
    }
    if (named.tensor.data.elements() == 0) return Refuse(": tensor ", key, " has no elements");
    named.tensor = InFloats(std::move(named.tensor));
    return absl::OkStatus();
  }

  // The first in the order of the modules is told.
  absl::Status CheckValues() const {
    if (values_ == Values::kUnread) return absl::OkStatus();
    std::vector<char> is_finite(floats_.size());
    SplitWorkOn(std::min(UsableCpus(), weights::kMostReaders), static_cast<int>(floats_.size()),
                [&](int i) {
                  const StoredTensor& tensor = floats_[static_cast<size_t>(i)]->tensor;
                  is_finite[static_cast<size_t>(i)] = IsFinite(tensor);
                  weights::ReleasePages(tensor);
                });
    for (size_t i = 0; i < floats_.size(); ++i) {
      if (is_finite[i]) continue;
      return Refuse(": tensor ", Excerpt(floats_[i]->key, kKeyExcerpt),
                    " has values that are not finite (NaN or infinity)");
    }
    return absl::OkStatus();
  }

  absl::Status MakeAll() {
    absl::btree_map<std::string, WeightChange> changes;
    for (const auto& [place, change] : changes_) {
      absl::StatusOr<ModuleChange> made = MakeChanges(change.modules, change.tensors, peft_);
      if (!made.ok()) return Refuse(": ", made.status().message());
      Count(*made, change);
      for (WeightChange& weight : made->changes) {
        const std::string name = weight.weight;
        if (changes.emplace(name, std::move(weight)).second) continue;
        return Refuse(": ", name, " is changed both by itself and with others in one");
      }
    }
    for (auto& [name, change] : changes) lora_.changes.push_back(std::move(change));
    return lora_.changes.empty() ? Refuse(" has no delta of any weight") : absl::OkStatus();
  }

  void Count(const ModuleChange& made, const Change& change) {
    const std::string& key = change.tensors.begin()->second.key;
    if (made.has_alpha_zero) alpha_zero_.push_back(key);
    if (made.is_alpha_alone) alone_.push_back(key);
    const auto alpha = change.tensors.find(Role::kAlpha);
    if (made.ignores_alpha && IsOfAnotherRank(alpha->second.tensor)) ignored_.push_back(key);
  }

  // True if the alpha is not the rank that the file says that it was trained at: LyCORIS writes
  // both alike where they have no meaning.
  bool IsOfAnotherRank(const StoredTensor& alpha) const {
    const auto said = file_.metadata.find("ss_network_dim");
    const std::optional<double> value = ReadScalar(alpha);
    return said != file_.metadata.end() && value && said->second != absl::StrCat(*value);
  }

  void Warn() {
    AddWarning(alpha_zero_, "have alpha 0, so that they change nothing");
    AddWarning(alone_, "have an alpha or scale and no delta, and are ignored");
    AddWarning(ignored_,
               "are LoKr of two whole factors, of which the alpha has no meaning in LyCORIS and is "
               "ignored, though it is not the file's ss_network_dim");
    const bool is_wrapped = absl::c_any_of(
        keys_, [](const std::string& key) { return absl::StrContains(key, "base_model.model."); });
    const bool has_scale = absl::c_any_of(
        changes_, [](const auto& change) { return change.second.tensors.contains(Role::kAlpha); });
    if (!is_wrapped || has_scale || !file_.adapter_config.empty()) return;
    if (file_.metadata.contains(PeftScales::kMetadataKey)) return;
    lora_.warnings.push_back(absl::StrCat("it is PEFT's without ", kPeftConfig,
                                          ", which says alpha: alpha is taken for the rank"));
  }

  void AddWarning(const std::vector<std::string>& keys, absl::string_view text) {
    if (keys.empty()) return;
    lora_.warnings.push_back(absl::StrCat(keys.size(), " modules ", text, ": ", Some(keys)));
  }

  const LoraFile& file_;
  const ModelModules& modules_;
  const Values values_;
  std::vector<std::string> keys_;  // in order
  PeftScales peft_;
  // By the first module, and how many there are.
  absl::btree_map<std::pair<const Module*, size_t>, Change> changes_;
  std::vector<const NamedTensor*> floats_;                 // in the order of `changes_`
  std::vector<std::string> alpha_zero_, alone_, ignored_;  // keys
  Lora lora_;
};

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The file of tensors that a folder has.
absl::StatusOr<std::string> FileIn(const std::string& folder) {
  for (const absl::string_view name :
       {kPeftFile, absl::string_view("pytorch_lora_weights.safetensors"), kNetworkFile,
        kFp16NetworkFile}) {
    const fs::path path = fs::path(folder) / std::string(name);
    if (IsThere(path)) return path.string();
  }
  for (const char* name : {"adapter_model.bin", "pytorch_lora_weights.bin"}) {
    const fs::path path = fs::path(folder) / name;
    if (IsThere(path)) return path.string();  // a pickle, which its reader refuses with what to do
  }
  return absl::NotFoundError(
      absl::StrCat(folder, " is a folder without ", kPeftFile,
                   " or pytorch_lora_weights.safetensors, as PEFT and diffusers write LoRAs"));
}

}  // namespace

absl::StatusOr<LoraFile> OpenLora(const std::string& path, const weights::DigestArchive& digests) {
  std::error_code error;
  LoraFile file = {.path = path, .tensors = {}, .metadata = {}};
  if (fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(file.path, FileIn(path));
  }
  ASSIGN_OR_RETURN(weights::SafetensorsFile read, weights::ReadSafetensorsFile(file.path, digests));
  file.tensors = std::move(read.tensors);
  file.metadata = std::move(read.metadata);
  const std::string name = fs::path(file.path).filename().string();
  const bool is_network = name == kNetworkFile || name == kFp16NetworkFile;
  const fs::path config =
      fs::path(file.path).parent_path() / std::string(is_network ? kNetworkConfig : kPeftConfig);
  if ((is_network || name == kPeftFile) && IsThere(config)) {
    ASSIGN_OR_RETURN(file.adapter_config, ReadFile(config.string(), kMostConfigBytes));
  }
  return file;
}

absl::StatusOr<Lora> MakeLora(std::string name, const LoraFile& file, const ModelModules& modules,
                              Values values) {
  return LoraBuilder(file, modules, values).Build(std::move(name));
}

absl::StatusOr<Lora> ReadLora(std::string name, const std::string& path,
                              const ModelModules& modules, const weights::DigestArchive& digests) {
  ASSIGN_OR_RETURN(const LoraFile file, OpenLora(path, digests));
  return MakeLora(std::move(name), file, modules);
}

}  // namespace latentd::adapters
