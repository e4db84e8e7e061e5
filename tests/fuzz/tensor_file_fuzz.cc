// libFuzzer target: any bytes as a file of embeddings. One that is read can be written and read
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/base/files/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view file(reinterpret_cast<const char*>(data), size);
  const auto tensors = latentd::ParseTensorFile(file, "file");
  if (!tensors.ok()) return 0;
  const auto again = latentd::ParseTensorFile(latentd::TensorFile(*tensors), "again");
  if (!again.ok() || again->size() != tensors->size()) std::abort();
  for (const latentd::NamedTensor& tensor : *tensors) {
    const latentd::NamedTensor* other = latentd::FindTensor(*again, tensor.name);
    if (other == nullptr || other->data != tensor.data || other->shape != tensor.shape) {
      std::abort();
    }
  }
  return 0;
}
