#include "tests/support/safetensors_writer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/coding.h"

namespace latentd::testing {

TensorToWrite F32Tensor(std::string name, std::vector<int64_t> shape, std::vector<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return {std::move(name), "F32", std::move(shape), std::move(bytes)};
}

TensorToWrite FilledTensor(std::string name, std::vector<int64_t> shape, float value) {
  int64_t elements = 1;
  for (int64_t dim : shape) elements *= dim;
  return F32Tensor(std::move(name), std::move(shape), std::vector<float>(elements, value));
}

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  std::string bytes;
  PutLittleEndian(bytes, uint64_t{header.size()});
  return absl::StrCat(bytes, header, data);
}

std::string SafetensorsBytes(const std::vector<TensorToWrite>& tensors) {
  std::string header = "{";
  std::string data;
  for (const TensorToWrite& tensor : tensors) {
    absl::StrAppend(&header, header.size() > 1 ? "," : "", "\"", tensor.name, "\":{\"dtype\":\"",
                    tensor.dtype, "\",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                    "],\"data_offsets\":[", data.size(), ",", data.size() + tensor.bytes.size(),
                    "]}");
    data += tensor.bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  return SafetensorsBytes(header, data);
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::abort();
  }
}

void WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors) {
  WriteFile(path, SafetensorsBytes(tensors));
}

}  // namespace latentd::testing
