// A folder of adapters, as functions, so that tests have folders of their own.
//
// The functions are thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/adapters/ip_adapter/ip_adapter.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/weights/archives.h"

namespace latentd::adapters {

// An adapter as a folder lists it: nothing of it is read.
struct FoundAdapter {
  std::string name;     // its path below the folder with '/', without a file's suffix
  std::string path;     // its file, or the folder that it is (PEFT's and diffusers')
  std::string stamp;    // identity of its files: another one where they were edited or replaced
  std::string problem;  // the reason why it cannot be read, as a sentence; empty: it can be
};

struct AdapterFolder {
  // All adapters below the folder, in the order of their names. NOT_FOUND and such name the folder.
  std::function<absl::StatusOr<std::vector<FoundAdapter>>()> list;
  // The stamp of an adapter as its files are now; takes system calls and reads nothing.
  std::function<absl::StatusOr<std::string>(const std::string& path)> stamp;
  // Headers, and data that is mapped and read when it is used (OpenLora): for a short look.
  std::function<absl::StatusOr<LoraFile>(const std::string& path)> open;
  // All of it, in memory of its own, which what is written to the file later does not reach.
  std::function<absl::StatusOr<LoraFile>(const std::string& path)> read;
  // The text of what an operator says of the adapter in a file NAME.json beside it; empty: nothing.
  std::function<std::string(const std::string& path)> said;
  // Image encoders near an IP-Adapter (OpenImageEncoders).
  std::function<std::vector<ImageEncoderFile>(const std::string& path)> image_encoders;
  // The stamp of what these are read from, from the nearest up to the one with that path
  // (ImageEncoderFile::path), or of all without it; takes system calls and reads nothing.
  std::function<std::string(const std::string& path, const std::string& last)> encoders_stamp;
};

// A folder of the file system with all folders below it. An adapter is a file of tensors, or a
// folder with adapter_model.safetensors, pytorch_lora_weights.safetensors or
// diffusion_pytorch_model.safetensors (also .fp16). Its name has letters, digits, and ._- of ASCII
// beside '/', and begins with none of the signs: others are listed with a problem, and so are
// pickles. Folders image_encoder are what IP-Adapters read, and no adapters. Of several with one
// name the first that can be read counts, files before folders. Links are followed; one that leads
// nowhere, or to a folder that it lies in, is listed with a problem. Hidden files and folders, what
// lies more than 8 folders deep, and all else are passed over. At most 10000 are listed.
AdapterFolder FolderOnDisk(const std::string& directory, weights::DigestArchive digests = {});

}  // namespace latentd::adapters
