// A ComponentSource is the place that a component of a checkpoint comes from: its folder in a
// diffusers directory, or its part of a single file.
//
// Immutable; any thread may call any method.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file_reader.h"
#include "core/weights/archives.h"
#include "core/weights/containers/component.h"
#include "core/weights/containers/single_file.h"
#include "core/weights/file_record.h"
#include "core/weights/source.h"

namespace latentd::weights {

// Settings and archives with which all files of a checkpoint are read.
struct Reading {
  std::string variant;                   // as of CheckpointPaths
  SaidOfFile said;                       // about a single file
  std::shared_ptr<FileRecords> records;  // remembers files that are read whole
  DigestArchive digests;

  // Reads a file and remembers it.
  FileReader reader() const;
};

// A tokenizer's files or, without, its pad token: single files have no vocabulary, since all CLIP
// encoders of Stable Diffusion have the same.
struct TokenizerSource {
  std::string directory;  // empty: the vocabulary is CLIP's own
  std::string pad_token;  // goes with CLIP's own
};

class ComponentSource {
 public:
  explicit ComponentSource(Component component) : component_(std::move(component)) {}
  virtual ~ComponentSource() = default;

  const Component& component() const { return component_; }

  // The place of its configuration, for messages: "/models/sdxl/unet/config.json".
  virtual std::string ConfigName() const = 0;
  // JSON, but for a scheduler of a folder: see Checkpoint::SchedulerConfigText.
  virtual absl::StatusOr<std::string> ConfigText() const = 0;
  // Its weights by today's names of diffusers and transformers. Reads headers, not data.
  virtual absl::StatusOr<SourceMap> LoadWeights() const = 0;
  // REQUIRES: it is a tokenizer.
  virtual absl::StatusOr<TokenizerSource> Tokenizer() const = 0;

 private:
  const Component component_;
};

using ComponentMap = absl::btree_map<std::string, std::shared_ptr<const ComponentSource>>;

// A folder with config.json and tensors; "scheduler" has scheduler_config.json. `note` says in an
// error why a missing folder was looked for.
std::shared_ptr<const ComponentSource> MakeFolderSource(absl::string_view name, Component component,
                                                        std::string folder, std::string note,
                                                        const Reading& reading);

// A part of the file at `path`, of the component with that name.
std::shared_ptr<const ComponentSource> MakeFileSource(absl::string_view name,
                                                      const std::string& path, FilePart part);

// The weights of `weights` with the class and configuration of `config`.
std::shared_ptr<const ComponentSource> MakeJoinedSource(
    std::shared_ptr<const ComponentSource> weights, std::shared_ptr<const ComponentSource> config);

// Tokenizers and schedulers of a file have a class and settings, and no tensors.
std::shared_ptr<const ComponentSource> MakeTokenizerSource(const std::string& path,
                                                           std::string pad_token);
std::shared_ptr<const ComponentSource> MakeSchedulerSource(const std::string& path,
                                                           std::string class_name,
                                                           std::string config);

// True if both have weights of the same names and shapes, but for those that no network reads:
// what the configuration of one says is true of the other. NOT_FOUND and such as LoadWeights.
absl::StatusOr<bool> HaveSameShapes(const ComponentSource& a, const ComponentSource& b);

}  // namespace latentd::weights
