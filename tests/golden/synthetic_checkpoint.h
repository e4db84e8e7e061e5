// A checkpoint of checkpoints.json: its configurations are there, its tokenizer is the demo
// checkpoint's, and its weights are synthetic (synthetic_weights.h).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/golden/command_line.h"
#include "tests/support/temporary_directory.h"

namespace latentd::golden {

// A folder as diffusers' save_pretrained writes it, in the directory for temporary files; it goes
// with this.
class SyntheticCheckpoint {
 public:
  // NOT_FOUND unless checkpoints.json has one of this name.
  static absl::StatusOr<std::unique_ptr<const SyntheticCheckpoint>> Write(const Options& options,
                                                                          const std::string& name);

  const std::string& path() const { return directory_.path(); }

 private:
  testing::TemporaryDirectory directory_;
};

// All ControlNets of controls.json, as folders of their names below one that goes with this, and
// all IP-Adapters of ip_adapters.json, as NAME/adapter.safetensors with NAME/image_encoder beside
// it.
class SyntheticNets {
 public:
  static absl::StatusOr<std::unique_ptr<const SyntheticNets>> Write(const Options& options);

  const std::string& path() const { return directory_.path(); }
  // An IP-Adapter's name to the server.
  static std::string NameOfIpAdapter(const std::string& name) { return name + "/adapter"; }

 private:
  testing::TemporaryDirectory directory_;
};

}  // namespace latentd::golden
