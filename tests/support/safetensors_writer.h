// Writes small files for tests of what reads checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace latentd::testing {

struct TensorToWrite {
  std::string name;
  std::string dtype;  // as in the header: "F32"
  std::vector<int64_t> shape;
  std::string bytes;
};

TensorToWrite F32Tensor(std::string name, std::vector<int64_t> shape, std::vector<float> values);

// A tensor of F32, all elements equal.
TensorToWrite FilledTensor(std::string name, std::vector<int64_t> shape, float value);

// A whole file, with the header padded to 8 bytes; tensors in the order given.
std::string SafetensorsBytes(const std::vector<TensorToWrite>& tensors);

// A whole file with a header as given, which may be wrong.
std::string SafetensorsBytes(const std::string& header, const std::string& data);

// Makes the folders above it. A failure ends the test program, since nothing after it makes sense.
void WriteFile(const std::string& path, const std::string& bytes);
void WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors);

}  // namespace latentd::testing
