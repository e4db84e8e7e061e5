#include "core/weights/stored_tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "core/base/alignment.h"

namespace latentd::weights {

using device::Buffer;

ContentDigest::ContentDigest(Buffer data)
    : ContentDigest([data = std::move(data)] {
        return DigestOf({static_cast<const char*>(data.data()), data.bytes()});
      }) {}

const Digest& ContentDigest::Get() const {
  absl::call_once(once_, [this] { digest_ = make_(); });
  return digest_;
}

void ReleasePages(const StoredTensor& tensor) {
  // On other memory than a file's this would lose what was written to it.
  if (!tensor.mapped) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data.data());
  const uintptr_t first = RoundUp(begin, page);
  const uintptr_t last = (begin + tensor.data.bytes()) / page * page;
  if (first >= last) return;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);  // NOLINT
}

bool IsReadable(const Buffer& data) {
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  return address % static_cast<uintptr_t>(device::SizeOf(data.dtype())) == 0;
}

Buffer Aligned(const Buffer& data) {
  if (IsReadable(data)) return data;
  Buffer copy = Buffer::Allocate(data.dtype(), data.shape());
  std::memcpy(copy.data(), data.data(), data.bytes());
  return copy;
}

}  // namespace latentd::weights
