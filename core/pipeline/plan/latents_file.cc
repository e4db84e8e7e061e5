#include "core/pipeline/plan/latents_file.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/weights/containers/safetensors.h"

namespace latentd::pipeline {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr char kName[] = "latents";
constexpr size_t kAlignment = 8;          // alignment of the data in the file
constexpr int64_t kMostHeader = 1 << 16;  // bytes: metadata that a user adds is short

int64_t DataBytes(int64_t channels, const LatentSize& size) {
  return channels * size.height * size.width * kFloat;
}

// The header's length, little-endian, and the header.
std::string Header(int64_t channels, const LatentSize& size) {
  std::string json =
      absl::StrCat(R"({"latents":{"dtype":"F32","shape":[1,)", channels, ",", size.height, ",",
                   size.width, R"(],"data_offsets":[0,)", DataBytes(channels, size), "]}}");
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string header;
  for (size_t byte = 0; byte < sizeof(uint64_t); ++byte) {
    header.push_back(static_cast<char>(json.size() >> (8 * byte) & 0xff));
  }
  return header + json;
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckShape(const device::Shape& shape, const device::Shape& wanted) {
  const std::vector<int64_t>& dims = shape.dims();
  const bool rest = shape.rank() == wanted.rank() &&
                    std::equal(dims.begin() + 1, dims.end(), wanted.dims().begin() + 1);
  if (rest && (dims[0] == 1 || dims[0] == wanted[0])) return absl::OkStatus();
  const std::string more = wanted[0] == 1 ? "" : ", or with 1 as its first number";
  return Wrong(absl::StrCat("the tensor must have the shape ", wanted.ToString(), more, ", has ",
                            Excerpt(shape.ToString())));
}

// The numbers, in the file itself where they are aligned there.
absl::StatusOr<device::ConstBuffer> FindLatents(absl::string_view file,
                                                const device::Shape& wanted) {
  const int64_t most = wanted.elements() * kFloat + kMostHeader;
  if (static_cast<int64_t>(file.size()) > most) {
    return Wrong(absl::StrCat("must have at most ", most, " bytes, has ", file.size()));
  }
  ASSIGN_OR_RETURN(const weights::TensorMap tensors,
                   weights::ParseSafetensorsBytes(file, "the safetensors file", nullptr));
  const auto found = tensors.find(kName);
  if (found == tensors.end() || tensors.size() > 1) {
    return Wrong("must be a safetensors file with one tensor, named latents");
  }
  const weights::StoredTensor& tensor = found->second;
  if (!tensor.unusable_dtype.empty() || tensor.data.dtype() != device::DType::kF32) {
    return Wrong("the tensor must be of F32: latents.float() in torch");
  }
  RETURN_IF_ERROR(CheckShape(tensor.data.shape(), wanted));
  device::ConstBuffer aligned = weights::Aligned(tensor.data);
  const absl::Span<const float> values = aligned.as<float>();
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
    return Wrong("all numbers must be finite");
  }
  return aligned;
}

}  // namespace

int64_t LatentsFileBytes(int64_t channels, const LatentSize& size) {
  return static_cast<int64_t>(Header(channels, size).size()) + DataBytes(channels, size);
}

device::Shape ImageLatentsShape(int64_t images, int64_t channels, const LatentSize& size) {
  return {images, channels, size.height, size.width};
}

device::Shape VideoLatentsShape(int64_t videos, int64_t frames, int64_t channels,
                                const LatentSize& size) {
  return {videos, frames, channels, size.height, size.width};
}

absl::Status CheckLatentsFile(absl::string_view file, const device::Shape& shape) {
  return FindLatents(file, shape).status();
}

absl::StatusOr<device::Buffer> ReadLatentsFile(absl::string_view file, const device::Shape& shape) {
  ASSIGN_OR_RETURN(const device::ConstBuffer found, FindLatents(file, shape));
  const absl::Span<const float> values = found.as<float>();
  device::Buffer latents = device::Buffer::Allocate(device::DType::kF32, found.shape());
  std::copy(values.begin(), values.end(), latents.as<float>().begin());
  return latents;
}

std::string LatentsFile(const device::ConstBuffer& latents, const LatentSize& size) {
  const device::Shape& shape = latents.shape();
  const int64_t top = (shape[2] - size.height) / 2, left = (shape[3] - size.width) / 2;
  std::string file = Header(shape[1], size);
  file.reserve(file.size() + static_cast<size_t>(DataBytes(shape[1], size)));
  const absl::Span<const float> values = latents.as<float>();
  for (int64_t channel = 0; channel < shape[1]; ++channel) {
    for (int64_t y = 0; y < size.height; ++y) {
      const int64_t from = (channel * shape[2] + top + y) * shape[3] + left;
      file.append(reinterpret_cast<const char*>(values.data() + from),
                  static_cast<size_t>(size.width * kFloat));
    }
  }
  return file;
}

}  // namespace latentd::pipeline
