#include "core/base/files/tensor_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"

namespace latentd {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMostHeader = size_t{1} << 20;  // bytes: metadata that a user adds is short
constexpr size_t kAlignment = 8;                 // alignment of the data in the file

absl::Status NoFile(absl::string_view source, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": not a safetensors file: ", why));
}

// The bytes of the header: little-endian, before it.
uint64_t HeaderBytes(absl::string_view file) {
  uint64_t bytes = 0;
  for (size_t i = kLengthBytes; i-- > 0;) bytes = bytes << 8 | static_cast<uint8_t>(file[i]);
  return bytes;
}

// False where it is no list of whole numbers from 0 on.
bool ReadNumbers(const nlohmann::json& entry, const char* name, std::vector<int64_t>& numbers) {
  const auto found = entry.find(name);
  if (found == entry.end() || !found->is_array()) return false;
  for (const nlohmann::json& number : *found) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMost) return false;
    numbers.push_back(static_cast<int64_t>(number.get<uint64_t>()));
  }
  return true;
}

bool ReadEntry(const nlohmann::json& entry, absl::string_view data, NamedTensor& tensor) {
  if (!entry.is_object()) return false;
  const auto dtype = entry.find("dtype");
  std::vector<int64_t> ends;
  if (dtype == entry.end() || !dtype->is_string() || !ReadNumbers(entry, "shape", tensor.shape) ||
      !ReadNumbers(entry, "data_offsets", ends) || ends.size() != 2) {
    return false;
  }
  if (ends[1] < ends[0] || static_cast<uint64_t>(ends[1]) > data.size()) {
    return false;
  }
  tensor.dtype = dtype->get<std::string>();
  tensor.data = std::string(
      data.substr(static_cast<size_t>(ends[0]), static_cast<size_t>(ends[1] - ends[0])));
  return true;
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> ParseTensorFile(absl::string_view file,
                                                         absl::string_view source) {
  if (file.size() < kLengthBytes) return NoFile(source, "it is too short");
  const uint64_t bytes = HeaderBytes(file);
  file.remove_prefix(kLengthBytes);
  if (bytes > file.size()) return NoFile(source, "its header is longer than the file");
  ASSIGN_OR_RETURN(const nlohmann::json header,
                   ParseJsonObject(file.substr(0, bytes), source, kMostHeader));
  file.remove_prefix(bytes);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    NamedTensor& tensor = tensors.emplace_back(NamedTensor{.name = name});
    if (ReadEntry(entry, file, tensor)) continue;
    return NoFile(source, absl::StrCat("its entry ", name, " is not right, or its data is cut"));
  }
  return tensors;
}

std::string TensorFile(absl::Span<const NamedTensor> tensors) {
  nlohmann::json header = nlohmann::json::object();
  size_t end = 0;
  for (const NamedTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {end, end + tensor.data.size()}}};
    end += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + end);
  for (size_t i = 0; i < kLengthBytes; ++i) {
    file.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  }
  file += text;
  for (const NamedTensor& tensor : tensors) file += tensor.data;
  return file;
}

const NamedTensor* FindTensor(absl::Span<const NamedTensor> tensors, absl::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& one) { return one.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace latentd
