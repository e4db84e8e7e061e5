#include "core/weights/containers/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/mapped_file.h"
#include "core/base/text/coding.h"
#include "core/base/text/text.h"
#include "core/weights/checkpoint_file.h"
#include "core/weights/containers/file_container.h"
#include "core/weights/containers/safetensors_header.h"

namespace latentd::weights {
namespace {

using device::ConstBuffer;
using device::DType;
using device::Shape;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct DTypeRow {
  absl::string_view name;
  int bits;
  std::optional<DType> dtype;  // absent: no dtype of graphs
};

// All dtypes of the format.
constexpr std::array<DTypeRow, 22> kDTypes = {{{"F32", 32, DType::kF32},
                                               {"F16", 16, DType::kF16},
                                               {"BF16", 16, DType::kBF16},
                                               {"I64", 64, DType::kI64},
                                               {"U8", 8, DType::kU8},
                                               {"BOOL", 8, std::nullopt},
                                               {"I8", 8, std::nullopt},
                                               {"I16", 16, std::nullopt},
                                               {"U16", 16, std::nullopt},
                                               {"I32", 32, std::nullopt},
                                               {"U32", 32, std::nullopt},
                                               {"U64", 64, std::nullopt},
                                               {kDoubles, 64, std::nullopt},
                                               {"C64", 64, std::nullopt},
                                               {"F8_E4M3", 8, DType::kF8E4M3},
                                               {"F8_E5M2", 8, DType::kF8E5M2},
                                               {"F8_E8M0", 8, std::nullopt},
                                               {"F6_E2M3", 6, std::nullopt},
                                               {"F6_E3M2", 6, std::nullopt},
                                               {"F4", 4, std::nullopt},
                                               {"F8_E4M3FNUZ", 8, std::nullopt},
                                               {"F8_E5M2FNUZ", 8, std::nullopt}}};

const DTypeRow* FindDType(absl::string_view name) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                [&](const DTypeRow& row) { return row.name == name; });
  return row == kDTypes.end() ? nullptr : &*row;
}

// The header and the data behind it.
struct Parts {
  absl::string_view header;
  absl::string_view data;
};

absl::Status Refuse(const std::string& file, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", reason));
}

absl::StatusOr<Parts> Split(absl::string_view bytes, const std::string& file) {
  if (const std::string other = DescribeContainer(bytes, file); !other.empty()) {
    return Refuse(file, absl::StrCat("is ", other));
  }
  if (bytes.size() < kLengthBytes) {
    return Refuse(file, absl::StrCat("has ", bytes.size(),
                                     " bytes; a safetensors file begins with 8 that give the "
                                     "length of its header"));
  }
  const auto length = LittleEndianReader(bytes).Take<uint64_t>();
  if (length > kMaxHeaderBytes) {
    return Refuse(
        file, absl::StrCat("says that its header has ", length, " bytes; at most ", kMaxHeaderBytes,
                           " are allowed, so this is no safetensors file, or a damaged "
                           "one"));
  }
  if (length > bytes.size() - kLengthBytes) {
    return Refuse(
        file, absl::StrCat("is truncated: it has ", bytes.size(), " bytes and its header alone ",
                           length, "; copy or download it again"));
  }
  return Parts{bytes.substr(kLengthBytes, length), bytes.substr(kLengthBytes + length)};
}

// Bytes of a tensor of the entry's shape; nullopt: more than can be counted, or no whole number.
std::optional<int64_t> BytesOf(const HeaderEntry& entry, int bits) {
  int64_t product = 1;
  for (int64_t dim : entry.shape) {
    if (__builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  if (__builtin_mul_overflow(product, bits, &product) || product % 8 != 0) return std::nullopt;
  return product / 8;
}

// Bytes of the file that the header describes. REQUIRES: each entry has both offsets.
uint64_t DescribedBytes(const Parts& parts, const std::vector<HeaderEntry>& entries) {
  int64_t end = 0;
  for (const HeaderEntry& entry : entries) end = std::max(end, entry.offsets[1]);
  return kLengthBytes + parts.header.size() + static_cast<uint64_t>(end);
}

absl::Status CheckRange(const HeaderEntry& entry, const DTypeRow& row, const Parts& parts,
                        uint64_t described_bytes, const std::string& file) {
  const int64_t begin = entry.offsets[0];
  const int64_t end = entry.offsets[1];
  const std::string range = absl::StrCat("tensor ", Excerpt(entry.name, kNameBytes),
                                         " lies at bytes [", begin, ", ", end, ") of the data");
  if (begin > end) return Refuse(file, absl::StrCat(range, ", which ends before it begins"));
  if (static_cast<uint64_t>(end) > parts.data.size()) {
    return Refuse(file, absl::StrCat(range, ", but there are only ", parts.data.size(),
                                     ": the file is truncated, it has ",
                                     kLengthBytes + parts.header.size() + parts.data.size(), " of ",
                                     described_bytes, " bytes; copy or download it again"));
  }
  const std::optional<int64_t> bytes = BytesOf(entry, row.bits);
  if (bytes == end - begin) return absl::OkStatus();
  const std::string type =
      absl::StrCat(row.name, Excerpt(Shape(entry.shape).ToString(), kNameBytes));
  return Refuse(file,
                absl::StrCat(range, ", but ", type, " takes ",
                             bytes ? absl::StrCat(*bytes) : "an impossible number of", " bytes"));
}

// Ranges must follow each other from 0 to the end of the data. REQUIRES: each lies in the data.
absl::Status CheckCover(std::vector<HeaderEntry>& entries, size_t data_bytes,
                        const std::string& file) {
  std::sort(entries.begin(), entries.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) { return a.offsets < b.offsets; });
  int64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    const int64_t begin = entry.offsets[0];
    if (begin != covered) {
      return Refuse(file, absl::StrCat("tensor ", Excerpt(entry.name, kNameBytes),
                                       " begins at byte ", begin, " of the data, ",
                                       begin < covered ? "inside the tensor before it, which ends "
                                                       : "behind a gap; the one before it ends ",
                                       "at ", covered));
    }
    covered = entry.offsets[1];
  }
  if (static_cast<uint64_t>(covered) == data_bytes) return absl::OkStatus();
  return Refuse(
      file, absl::StrCat("has ", data_bytes, " bytes of data, but its tensors end at ", covered));
}

StoredTensor MakeTensor(const HeaderEntry& entry, const DTypeRow& row, absl::string_view data,
                        const std::string& file, const std::shared_ptr<const void>& owner) {
  StoredTensor tensor;
  tensor.file = file;
  if (!row.dtype) tensor.unusable_dtype = std::string(row.name);
  if (!row.dtype && row.name != kDoubles) {
    tensor.data = ConstBuffer::Wrap(nullptr, DType::kU8, Shape(entry.shape), nullptr);
    return tensor;
  }
  tensor.data = ConstBuffer::Wrap(data.data() + entry.offsets[0], row.dtype.value_or(DType::kI64),
                                  Shape(entry.shape), owner);
  tensor.digest = std::make_shared<const ContentDigest>(tensor.data);
  return tensor;
}

absl::StatusOr<SafetensorsFile> ParseFile(absl::string_view bytes, const std::string& file,
                                          const std::shared_ptr<const void>& owner) {
  ASSIGN_OR_RETURN(const Parts parts, Split(bytes, file));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(parts.header, file));
  SafetensorsFile parsed{{}, std::move(header.metadata)};
  parsed.tensors.reserve(header.entries.size());
  const uint64_t described_bytes = DescribedBytes(parts, header.entries);
  for (const HeaderEntry& entry : header.entries) {
    const DTypeRow* row = FindDType(entry.dtype);
    if (row == nullptr) {
      return Refuse(file, absl::StrCat("tensor ", Excerpt(entry.name, kNameBytes),
                                       " has the dtype ", Excerpt(entry.dtype, kNameBytes),
                                       ", which safetensors does not have; F64, F32, F16, BF16, "
                                       "F8_E4M3, F8_E5M2, I64 and U8 are read"));
    }
    RETURN_IF_ERROR(CheckRange(entry, *row, parts, described_bytes, file));
    parsed.tensors.emplace(entry.name, MakeTensor(entry, *row, parts.data, file, owner));
  }
  RETURN_IF_ERROR(CheckCover(header.entries, parts.data.size(), file));
  return parsed;
}

absl::StatusOr<SafetensorsFile> ParseMapped(const std::shared_ptr<const MappedFile>& file) {
  ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseFile(file->bytes(), file->path(), file));
  for (auto& [name, tensor] : parsed.tensors) tensor.mapped = tensor.data.has_memory();
  return parsed;
}

}  // namespace

absl::StatusOr<TensorMap> ParseSafetensorsBytes(absl::string_view bytes, const std::string& file,
                                                const std::shared_ptr<const void>& owner) {
  ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseFile(bytes, file, owner));
  return std::move(parsed.tensors);
}

absl::StatusOr<SafetensorsFile> ReadSafetensorsFile(const std::string& path,
                                                    const DigestArchive& digests) {
  ASSIGN_OR_RETURN(const auto file, CheckpointFile::Open(path, digests));
  ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseMapped(file->mapping()));
  CheckpointFile::SetTensors(file, &parsed.tensors);
  return parsed;
}

absl::StatusOr<TensorMap> ReadSafetensors(const std::string& path, const DigestArchive& digests) {
  ASSIGN_OR_RETURN(SafetensorsFile parsed, ReadSafetensorsFile(path, digests));
  return std::move(parsed.tensors);
}

}  // namespace latentd::weights
