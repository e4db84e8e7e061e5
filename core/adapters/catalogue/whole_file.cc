#include "core/adapters/catalogue/whole_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {
namespace {

using device::ConstBuffer;
using device::DType;
using weights::ContentDigest;
using weights::StoredTensor;

constexpr size_t kMostBytes = size_t{16} << 30;

// A tensor of the file, and its place in memory.
struct Placed {
  StoredTensor* tensor;
  size_t offset;
};

// Tensors with data, in the order in which they lie in the file.
std::vector<Placed> Place(weights::TensorMap& tensors) {
  std::vector<Placed> placed;
  for (auto& [name, tensor] : tensors) {
    if (tensor.data.has_memory()) placed.push_back({&tensor, 0});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::less<>()(a.tensor->data.data(), b.tensor->data.data());
  });
  size_t offset = 0;
  for (Placed& one : placed) {
    one.offset = offset;
    offset += RoundUp(std::max<size_t>(one.tensor->data.bytes(), 1), weights::kPartAlignment);
  }
  return placed;
}

// Zeros, in large pages where the kernel has some: threads that write them first make them.
absl::StatusOr<std::shared_ptr<char>> TakePages(size_t bytes) {
  constexpr int kMine = MAP_PRIVATE | MAP_ANONYMOUS;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kMine, -1, 0);
  if (pages == MAP_FAILED) return OutOfMemoryError(absl::StrCat("no memory for ", bytes, " bytes"));
  madvise(pages, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<char>(static_cast<char*>(pages),
                               [bytes](char* gone) { munmap(gone, bytes); });
}

absl::Status Read(const Placed& placed, const std::shared_ptr<char>& memory) {
  StoredTensor& tensor = *placed.tensor;
  char* const to = memory.get() + placed.offset;
  RETURN_IF_ERROR(tensor.origin->Read(tensor.data, to));
  tensor.data = ConstBuffer::Wrap(to, tensor.data.dtype(), tensor.data.shape(), memory);
  tensor.digest = std::make_shared<const ContentDigest>(tensor.data);
  tensor.digest->Get();
  return absl::OkStatus();
}

absl::Status ReadAll(const std::vector<Placed>& placed, const std::shared_ptr<char>& memory) {
  std::vector<absl::Status> outcomes(placed.size());
  SplitWorkOn(std::min(UsableCpus(), weights::kMostReaders), static_cast<int>(placed.size()),
              [&](int i) {
                const auto at = static_cast<size_t>(i);
                outcomes[at] = Read(placed[at], memory);
              });
  for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
  // All of it is as it was opened.
  return placed.empty() ? absl::OkStatus() : placed.front().tensor->origin->CheckUnchanged();
}

// The memory that all of them lie in. Its content is theirs, with zeros between.
std::shared_ptr<const StoredTensor> UnitOf(const std::vector<Placed>& placed,
                                           const std::shared_ptr<char>& memory, size_t bytes) {
  std::string contents;
  for (const Placed& one : placed) {
    absl::StrAppend(&contents, one.offset, " ", one.tensor->digest->Get().ToString(), "\n");
  }
  auto unit = std::make_shared<StoredTensor>();
  unit->data = ConstBuffer::Wrap(memory.get(), DType::kU8, {static_cast<int64_t>(bytes)}, memory);
  unit->file = placed.front().tensor->file;
  unit->digest = std::make_shared<const ContentDigest>(
      [digest = latentd::DigestOf(absl::StrCat("unit ", bytes, "\n", contents))] {
        return digest;
      });
  return unit;
}

}  // namespace

absl::StatusOr<LoraFile> ReadWhole(const std::string& path) {
  ASSIGN_OR_RETURN(LoraFile file, OpenLora(path));
  const std::vector<Placed> placed = Place(file.tensors);
  if (placed.empty()) return file;
  const size_t bytes = placed.back().offset + placed.back().tensor->data.bytes();
  if (bytes > kMostBytes) return absl::InvalidArgumentError(absl::StrCat(path, " is too large"));
  ASSIGN_OR_RETURN(const std::shared_ptr<char> memory, TakePages(std::max<size_t>(bytes, 1)));
  RETURN_IF_ERROR(ReadAll(placed, memory));
  const std::shared_ptr<const StoredTensor> unit = UnitOf(placed, memory, bytes);
  for (auto& [name, tensor] : file.tensors) {
    tensor.origin = nullptr;
    tensor.mapped = false;
    if (tensor.data.has_memory()) tensor.part_of = unit;
  }
  return file;
}

}  // namespace latentd::adapters
