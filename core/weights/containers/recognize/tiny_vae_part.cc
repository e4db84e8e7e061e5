#include "core/weights/containers/recognize/tiny_vae_part.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/part_reader.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;

constexpr int64_t kLatentsOfStableDiffusion = 4;

// One of the two sequences of layers in a file.
struct Sequence {
  std::string prefix;  // before the number of a layer
  int64_t first = 0;   // number of the first layer
};

bool HasLayer(const TensorMap& tensors, const std::string& prefix, int64_t index) {
  return tensors.contains(absl::StrCat(prefix, index, ".weight"));
}

// TAESD's own decoder counts a clamp before its first layer, which diffusers has outside.
std::optional<Sequence> FindTinyDecoder(const TensorMap& tensors) {
  if (HasLayer(tensors, "decoder.layers.", 0)) return Sequence{"decoder.layers.", 0};
  for (const char* prefix : {"taesd_decoder.", ""}) {
    if (HasLayer(tensors, prefix, 1) && !HasLayer(tensors, prefix, 0)) return Sequence{prefix, 1};
  }
  return std::nullopt;
}

std::optional<Sequence> FindTinyEncoder(const TensorMap& tensors) {
  for (const char* prefix : {"encoder.layers.", "taesd_encoder.", ""}) {
    if (HasLayer(tensors, prefix, 0)) return Sequence{prefix, 0};
  }
  return std::nullopt;
}

// Reads a sequence: convolutions, of which all but the first and the last change the size, and
// residual blocks of three convolutions between them.
class SequenceReading {
 public:
  SequenceReading(std::string half, const TensorMap& tensors, const Sequence& sequence)
      : half_(std::move(half)),
        first_(sequence.first),
        reader_(absl::StrCat("the tiny VAE's ", half_), TensorsUnder(tensors, sequence.prefix)) {}

  absl::StatusOr<SourceMap> Read(const std::string& path) {
    const std::vector<int64_t> convolutions = Convolutions();
    const std::string first = Stored(convolutions.front()), last = Stored(convolutions.back());
    in_ = reader_.Size(first + ".weight", 1);
    width_ = reader_.Size(first + ".weight", 0);
    out_ = reader_.Size(last + ".weight", 0);
    const size_t count = reader_.has_mistakes() ? 0 : convolutions.size();
    for (size_t i = 0; i < count; ++i) {
      const bool is_first = i == 0, is_last = i + 1 == convolutions.size();
      TakeConvolution(convolutions[i], is_first ? in_ : width_, is_last ? out_ : width_,
                      is_first || is_last);
      if (!is_last) TakeBlocks(convolutions[i], convolutions[i + 1]);
    }
    return std::move(reader_).Finish(path);
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  int64_t width() const { return width_; }
  const std::vector<int64_t>& blocks() const { return blocks_; }

 private:
  static constexpr int64_t kMostLayers = 64;

  std::string Stored(int64_t index) const { return absl::StrCat(index + first_); }
  std::string Wanted(int64_t index) const { return absl::StrCat(half_, ".layers.", index); }

  // Numbers of the layers that are convolutions alone.
  std::vector<int64_t> Convolutions() const {
    std::vector<int64_t> found = {0};
    for (int64_t i = 1; i < kMostLayers; ++i) {
      if (reader_.Has(Stored(i) + ".weight") || reader_.Has(Stored(i) + ".bias"))
        found.push_back(i);
    }
    return found;
  }

  void TakeConvolution(int64_t index, int64_t in, int64_t out, bool has_bias) {
    reader_.Take(Stored(index) + ".weight", Wanted(index) + ".weight", {out, in, 3, 3});
    if (has_bias) reader_.Take(Stored(index) + ".bias", Wanted(index) + ".bias", {out});
  }

  // Residual blocks between two convolutions; activations between them have no tensors.
  void TakeBlocks(int64_t after, int64_t before) {
    int64_t count = 0;
    for (int64_t i = after + 1; i < before; ++i) {
      if (!reader_.HasUnder(Stored(i))) continue;
      ++count;
      for (const char* convolution : {".conv.0", ".conv.2", ".conv.4"}) {
        reader_.Take(absl::StrCat(Stored(i), convolution, ".weight"),
                     absl::StrCat(Wanted(i), convolution, ".weight"), {width_, width_, 3, 3});
        reader_.Take(absl::StrCat(Stored(i), convolution, ".bias"),
                     absl::StrCat(Wanted(i), convolution, ".bias"), {width_});
      }
    }
    blocks_.push_back(count);
  }

  std::string half_;
  int64_t first_;
  PartReader reader_;
  int64_t in_ = 0, out_ = 0, width_ = 0;
  std::vector<int64_t> blocks_;  // residual blocks behind each convolution but the last
};

std::vector<int64_t> Widths(int64_t value, size_t count) {
  return std::vector<int64_t>(count, value);
}

absl::Status CheckTinyLatents(const std::string& path, int64_t channels) {
  if (channels == kLatentsOfStableDiffusion) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is a tiny VAE of ", channels,
                   " latent channels (TAESD3, TAEF1, TAEF2: of Stable Diffusion 3 and FLUX); that "
                   "of Stable Diffusion 1, 2 and XL has ",
                   kLatentsOfStableDiffusion));
}

absl::Status ReadTinyEncoder(const std::string& path, const TensorMap& tensors, json& config,
                             SourceMap& sources) {
  const std::optional<Sequence> sequence = FindTinyEncoder(tensors);
  if (!sequence) return absl::OkStatus();
  SequenceReading reading("encoder", tensors, *sequence);
  ASSIGN_OR_RETURN(SourceMap found, reading.Read(path));
  RETURN_IF_ERROR(CheckTinyLatents(path, reading.out()));
  config["num_encoder_blocks"] = reading.blocks();
  config["encoder_block_out_channels"] = Widths(reading.width(), reading.blocks().size());
  sources.merge(std::move(found));
  return absl::OkStatus();
}

}  // namespace

bool IsTinyVae(const TensorMap& tensors) {
  const auto is_own = [&](const std::string& prefix) {
    return tensors.contains(prefix + "1.conv.0.weight") ||
           tensors.contains(prefix + "3.conv.0.weight");
  };
  return tensors.contains("decoder.layers.0.weight") ||
         tensors.contains("encoder.layers.0.weight") || is_own("taesd_decoder.") ||
         is_own("taesd_encoder.") || is_own("");
}

absl::StatusOr<TinyVaePart> ReadTinyVae(const std::string& path, const TensorMap& tensors) {
  const std::optional<Sequence> sequence = FindTinyDecoder(tensors);
  if (!sequence) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, IsTinyVae(tensors) ? ": is the encoder of a tiny VAE alone; give its decoder"
                                 : ": is no tiny VAE (TAESD): none of its names are there"));
  }
  TinyVaePart part;
  SequenceReading reading("decoder", tensors, *sequence);
  ASSIGN_OR_RETURN(part.sources, reading.Read(path));
  RETURN_IF_ERROR(CheckTinyLatents(path, reading.in()));
  json config = {{"_class_name", "AutoencoderTiny"},
                 {"act_fn", "relu"},
                 {"in_channels", reading.out()},
                 {"out_channels", reading.out()},
                 {"latent_channels", reading.in()},
                 {"num_decoder_blocks", reading.blocks()},
                 {"decoder_block_out_channels", Widths(reading.width(), reading.blocks().size())},
                 {"scaling_factor", 1.0},
                 {"shift_factor", 0.0}};
  RETURN_IF_ERROR(ReadTinyEncoder(path, tensors, config, part.sources));
  part.config = config.dump(2);
  return part;
}

}  // namespace latentd::weights
