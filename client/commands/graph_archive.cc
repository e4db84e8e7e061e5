#include "client/commands/graph_archive.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/coding.h"

namespace latentd::client {
namespace {

constexpr absl::string_view kMagic = "latgraf1";
constexpr uint64_t kPartBytes = 1 << 20;

absl::Status OutOfOrder() {
  return absl::DataLossError("the server's graphs do not follow each other as they should");
}

}  // namespace

GraphArchiveWriter::GraphArchiveWriter() : bytes_(kMagic) {}

absl::Status GraphArchiveWriter::Add(const ::latent::v1::GraphBytes& part) {
  if ((part.total_bytes() > 0) != (missing_ == 0)) return OutOfOrder();
  if (missing_ == 0) {
    missing_ = part.total_bytes();
    PutLittleEndian(bytes_, static_cast<uint64_t>(missing_));
    ++graphs_;
  }
  const auto size = static_cast<int64_t>(part.data().size());
  if (size > missing_) return OutOfOrder();
  bytes_ += part.data();
  missing_ -= size;
  return absl::OkStatus();
}

absl::Status GraphArchiveWriter::Finish() const {
  return missing_ == 0 ? absl::OkStatus() : OutOfOrder();
}

absl::Status GraphArchiveReader::Check(absl::string_view archive) {
  if (!absl::StartsWith(archive, kMagic)) {
    return absl::InvalidArgumentError("not a file that `latent graphs export` wrote");
  }
  LittleEndianReader reader(archive.substr(kMagic.size()));
  while (!reader.done()) {
    if (reader.TakeBytes(reader.Take<uint64_t>()).empty()) {
      return absl::InvalidArgumentError("cut short");
    }
  }
  return absl::OkStatus();
}

GraphArchiveReader::GraphArchiveReader(absl::string_view archive)
    : rest_(archive.substr(kMagic.size())) {}

bool GraphArchiveReader::Next(::latent::v1::GraphBytes& part) {
  if (rest_.empty()) return false;
  if (missing_ == 0) {
    LittleEndianReader reader(rest_);
    missing_ = reader.Take<uint64_t>();
    part.set_total_bytes(static_cast<int64_t>(missing_));
    rest_ = reader.rest();
  }
  const size_t size = std::min(missing_, kPartBytes);
  part.set_data(rest_.data(), size);
  rest_.remove_prefix(size);
  missing_ -= size;
  return true;
}

}  // namespace latentd::client
