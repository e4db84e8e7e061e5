#include "core/weights/containers/component_source.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/files/json.h"
#include "core/base/text/text.h"
#include "core/weights/containers/safetensors_header.h"
#include "core/weights/containers/tensor_files.h"
#include "core/weights/containers/tensor_names.h"
#include "core/weights/scaled_source.h"

namespace latentd::weights {
namespace {

constexpr size_t kMaxComponentConfigBytes = 1 << 20;

class FolderSource : public ComponentSource {
 public:
  FolderSource(bool is_scheduler, Component component, std::string folder, std::string note,
               const Reading& reading)
      : ComponentSource(std::move(component)),
        is_scheduler_(is_scheduler),
        folder_(std::move(folder)),
        note_(std::move(note)),
        reading_(reading) {}

  std::string ConfigName() const override {
    return absl::StrCat(folder_, is_scheduler_ ? "/scheduler_config.json" : "/config.json");
  }

  absl::StatusOr<std::string> ConfigText() const override {
    RETURN_IF_ERROR(CheckFolder());
    ASSIGN_OR_RETURN(std::string text, reading_.reader()(ConfigName(), kMaxComponentConfigBytes));
    if (!is_scheduler_) {
      RETURN_IF_ERROR(ParseJsonObject(text, ConfigName(), kMaxComponentConfigBytes).status());
    }
    return text;
  }

  absl::StatusOr<SourceMap> LoadWeights() const override {
    RETURN_IF_ERROR(CheckFolder());
    ASSIGN_OR_RETURN(const TensorFiles files,
                     FindTensorFiles(folder_, reading_.variant, reading_.reader()));
    ASSIGN_OR_RETURN(TensorMap tensors, ReadTensorFiles(files, reading_.digests));
    return SourcesOf(UnderTodaysNames(std::move(tensors), component().class_name));
  }

  absl::StatusOr<TokenizerSource> Tokenizer() const override {
    RETURN_IF_ERROR(CheckFolder());
    return TokenizerSource{folder_, ""};
  }

 private:
  absl::Status CheckFolder() const {
    const absl::Status opened = CheckDirectory(folder_);
    if (!absl::IsNotFound(opened)) return opened;
    return absl::NotFoundError(absl::StrCat("the folder ", folder_, " is missing", note_));
  }

  const bool is_scheduler_;
  const std::string folder_;
  const std::string note_;
  const Reading reading_;
};

class FileSource : public ComponentSource {
 public:
  FileSource(std::string config_name, FilePart part, TokenizerSource tokenizer = {})
      : ComponentSource(std::move(part.component)),
        config_name_(std::move(config_name)),
        config_(std::move(part.config)),
        weights_(std::move(part.sources)),
        tokenizer_(std::move(tokenizer)) {}

  std::string ConfigName() const override { return config_name_; }
  absl::StatusOr<std::string> ConfigText() const override { return config_; }
  absl::StatusOr<SourceMap> LoadWeights() const override { return weights_; }
  absl::StatusOr<TokenizerSource> Tokenizer() const override { return tokenizer_; }

 private:
  const std::string config_name_;
  const absl::StatusOr<std::string> config_;
  const SourceMap weights_;
  const TokenizerSource tokenizer_;
};

class JoinedSource : public ComponentSource {
 public:
  JoinedSource(std::shared_ptr<const ComponentSource> weights,
               std::shared_ptr<const ComponentSource> config)
      : ComponentSource(config->component()),
        weights_(std::move(weights)),
        config_(std::move(config)) {}

  std::string ConfigName() const override { return config_->ConfigName(); }
  absl::StatusOr<std::string> ConfigText() const override { return config_->ConfigText(); }
  absl::StatusOr<SourceMap> LoadWeights() const override { return weights_->LoadWeights(); }
  absl::StatusOr<TokenizerSource> Tokenizer() const override { return config_->Tokenizer(); }

 private:
  const std::shared_ptr<const ComponentSource> weights_;
  const std::shared_ptr<const ComponentSource> config_;
};

// Positions are 0, 1, 2, ... whatever a file says; other integers are counters.
bool IsOfNetwork(const std::string& name, const Source& source) {
  const bool is_double = source.make == nullptr && source.from[0].unusable_dtype == kDoubles;
  return (source.dtype() != device::DType::kI64 || is_double) &&
         !absl::EndsWith(name, "position_ids");
}

size_t CountOfNetwork(const SourceMap& weights) {
  return static_cast<size_t>(std::count_if(weights.begin(), weights.end(), [](const auto& entry) {
    return IsOfNetwork(entry.first, entry.second);
  }));
}

}  // namespace

FileReader Reading::reader() const {
  return [records = records](const std::string& path, size_t max_bytes) {
    return records->Read(path, max_bytes);
  };
}

std::shared_ptr<const ComponentSource> MakeFolderSource(absl::string_view name, Component component,
                                                        std::string folder, std::string note,
                                                        const Reading& reading) {
  return std::make_shared<FolderSource>(name == "scheduler", std::move(component),
                                        std::move(folder), std::move(note), reading);
}

std::shared_ptr<const ComponentSource> MakeFileSource(absl::string_view name,
                                                      const std::string& path, FilePart part) {
  return std::make_shared<FileSource>(absl::StrCat(path, " (", name, ")"), std::move(part));
}

std::shared_ptr<const ComponentSource> MakeJoinedSource(
    std::shared_ptr<const ComponentSource> weights, std::shared_ptr<const ComponentSource> config) {
  return std::make_shared<JoinedSource>(std::move(weights), std::move(config));
}

std::shared_ptr<const ComponentSource> MakeTokenizerSource(const std::string& path,
                                                           std::string pad_token) {
  return std::make_shared<FileSource>(path, FilePart{{"transformers", "CLIPTokenizer"}, "{}", {}},
                                      TokenizerSource{"", std::move(pad_token)});
}

std::shared_ptr<const ComponentSource> MakeSchedulerSource(const std::string& path,
                                                           std::string class_name,
                                                           std::string config) {
  return std::make_shared<FileSource>(
      absl::StrCat(path, " (scheduler)"),
      FilePart{{"diffusers", std::move(class_name)}, std::move(config), {}});
}

absl::StatusOr<bool> HaveSameShapes(const ComponentSource& a, const ComponentSource& b) {
  ASSIGN_OR_RETURN(const SourceMap of_a, a.LoadWeights());
  ASSIGN_OR_RETURN(const SourceMap of_b, b.LoadWeights());
  if (CountOfNetwork(of_a) != CountOfNetwork(of_b)) return false;
  return std::all_of(of_a.begin(), of_a.end(), [&](const auto& entry) {
    const auto& [name, source] = entry;
    if (!IsOfNetwork(name, source)) return true;
    const auto other = of_b.find(name);
    return other != of_b.end() && other->second.shape() == source.shape();
  });
}

}  // namespace latentd::weights
