#include "core/weights/containers/recognize/served_unet.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/weights/containers/recognize/foreign_model.h"
#include "core/weights/containers/recognize/refuse_file.h"
#include "core/weights/containers/recognize/text_encoder_part.h"
#include "core/weights/containers/recognize/tiny_vae_part.h"
#include "core/weights/containers/recognize/unet_paths.h"
#include "core/weights/containers/recognize/vae_part.h"

namespace latentd::weights {
namespace {

constexpr size_t kMostNamedTensors = 8;
constexpr size_t kNamedBytes = 200;

// A dimension of a tensor of the UNet; 0 where it has none.
int64_t DimensionOf(const PartTensors& part, absl::string_view module, int dimension) {
  const auto found = part.by_name.find(absl::StrCat(module, ".weight"));
  if (found == part.by_name.end()) return 0;
  const device::Shape& shape = found->second->data.shape();
  return shape.rank() > dimension ? shape[dimension] : 0;
}

// UNets of other models are told by their first layer, before tensors that they alone have are
// named as left over.
absl::Status CheckUnetSizes(const std::string& path, const PartTensors& part) {
  const UnetSpelling spelling = FindUnetPaths(part)->spelling;
  const int64_t in_channels = DimensionOf(part, spelling.conv_in, 1);
  if (in_channels == 0) return absl::OkStatus();  // reported with all else that is missing
  const std::string foreign =
      DescribeForeignUnet(in_channels, DimensionOf(part, spelling.add_linear_1, 1));
  return foreign.empty() ? absl::OkStatus() : RefuseFile(path, " is ", foreign);
}

// Says what a file without a UNet is.
absl::Status RefuseWithoutUnet(const std::string& path, const TensorMap& tensors) {
  if (IsTinyVae(tensors))
    return RefuseFile(path, " is a tiny VAE, no checkpoint: --vae-tiny takes it");
  if (FindVae(tensors)) return RefuseFile(path, " is a VAE, no checkpoint: --vae takes it");
  if (!FindEncoders(tensors).empty()) {
    return RefuseFile(path,
                      " is a text encoder, no checkpoint: --text-encoder and --text-encoder-2 "
                      "take it");
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(Excerpt(name, kNamedBytes));
  absl::c_sort(names);
  return RefuseFile(
      path, " is no checkpoint that is known here: it has no UNet of Stable Diffusion; ",
      names.empty() ? "it has no tensors" : "its tensors are ", ListSome(names, kMostNamedTensors));
}

}  // namespace

absl::Status CheckServed(const std::string& path, const TensorMap& tensors) {
  const std::string foreign = DescribeForeignTensors(tensors);
  if (!foreign.empty()) return RefuseFile(path, " is ", foreign);
  const std::string quantization = DescribeQuantization(tensors);
  if (!quantization.empty()) return RefuseFile(path, " ", quantization);
  return absl::OkStatus();
}

absl::StatusOr<UnetPart> ReadServedUnet(const std::string& path, const TensorMap& tensors) {
  RETURN_IF_ERROR(CheckServed(path, tensors));
  std::optional<PartTensors> part = FindUnet(tensors);
  if (!part) return RefuseWithoutUnet(path, tensors);
  RETURN_IF_ERROR(CheckUnetSizes(path, *part));
  return ReadUnet(path, *std::move(part));
}

}  // namespace latentd::weights
