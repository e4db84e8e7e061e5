#include "core/weights/stored_tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "core/base/alignment.h"

namespace latentd::weights {

using device::ConstBuffer;

namespace {

// True if its address suits its dtype.
bool IsReadable(const ConstBuffer& data) {
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  return address % static_cast<uintptr_t>(device::SizeOf(data.dtype())) == 0;
}

}  // namespace

ContentDigest::ContentDigest(ConstBuffer data)
    : ContentDigest([data = std::move(data)] {
        return DigestOf({static_cast<const char*>(data.data()), data.bytes()});
      }) {}

const Digest& ContentDigest::Get() const {
  absl::call_once(once_, [this] { digest_ = make_(); });
  return digest_;
}

const StoredTensor& UnitOf(const StoredTensor& tensor) {
  return tensor.part_of == nullptr ? tensor : *tensor.part_of;
}

ConstBuffer InUnit(const StoredTensor& tensor, const ConstBuffer& copy) {
  const auto* const begin = static_cast<const char*>(UnitOf(tensor).data.data());
  const ptrdiff_t offset = static_cast<const char*>(tensor.data.data()) - begin;
  // Equal bytes of another type are the same memory.
  return ConstBuffer::Wrap(static_cast<const char*>(copy.data()) + offset, tensor.data.dtype(),
                           tensor.data.shape(), std::make_shared<const ConstBuffer>(copy),
                           copy.place());
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

ConstBuffer Aligned(const ConstBuffer& data) {
  if (IsReadable(data)) return data;
  const device::Buffer copy = device::Buffer::Allocate(data.dtype(), data.shape());
  std::memcpy(copy.data(), data.data(), data.bytes());
  return copy;
}

std::vector<ConstBuffer> Aligned(absl::Span<const ConstBuffer> data) {
  std::vector<ConstBuffer> aligned;
  aligned.reserve(data.size());
  for (const ConstBuffer& one : data) aligned.push_back(Aligned(one));
  return aligned;
}

size_t CopiedBytes(absl::Span<const ConstBuffer> data) {
  size_t bytes = 0;
  for (const ConstBuffer& one : data) bytes += IsReadable(one) ? 0 : one.bytes();
  return bytes;
}

}  // namespace latentd::weights
