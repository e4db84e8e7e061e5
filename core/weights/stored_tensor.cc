#include "core/weights/stored_tensor.h"

#include <cstring>

namespace latentd::weights {

using device::Buffer;

const Digest& ContentDigest::Get() const {
  absl::call_once(once_, [this] {
    digest_ = DigestOf({static_cast<const char*>(data_.data()), data_.bytes()});
  });
  return digest_;
}

Buffer Aligned(const Buffer& data) {
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  if (address % static_cast<uintptr_t>(device::SizeOf(data.dtype())) == 0) return data;
  Buffer copy = Buffer::Allocate(data.dtype(), data.shape());
  std::memcpy(copy.data(), data.data(), data.bytes());
  return copy;
}

}  // namespace latentd::weights
