#include "server/admin/graph_bytes_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "server/calls/request_parser.h"

namespace latentd::server::admin {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the stream is damaged: ", what));
}

absl::Status TooMuch(absl::string_view what) {
  return WithReason(absl::ResourceExhaustedError(what), "CACHE_BUDGET");
}

}  // namespace

absl::StatusOr<std::optional<std::string>> GraphBytesReader::Add(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const auto message, calls::ReadRequest<latent::v1::GraphBytes>(bytes));
  return Add(message);
}

absl::StatusOr<std::optional<std::string>> GraphBytesReader::Add(
    const latent::v1::GraphBytes& message) {
  const std::string& data = message.data();
  if (data.size() > kMaxGraphChunkBytes) {
    return InvalidFields({{"data", absl::StrCat("has ", data.size(), " bytes; at most ",
                                                kMaxGraphChunkBytes, " are allowed")}});
  }
  if (message.total_bytes() != 0) RETURN_IF_ERROR(Begin(message.total_bytes()));
  if (graph_bytes_ == 0) return Damaged("the first message of a graph has no size");
  if (graph_.size() + data.size() > static_cast<size_t>(graph_bytes_)) {
    return Damaged(absl::StrCat("a graph of ", graph_bytes_, " bytes has more"));
  }
  graph_.append(data);
  if (graph_.size() < static_cast<size_t>(graph_bytes_)) return std::nullopt;
  graph_bytes_ = 0;
  return std::exchange(graph_, std::string());
}

absl::Status GraphBytesReader::Begin(int64_t total_bytes) {
  if (graph_bytes_ != 0) {
    return Damaged(absl::StrCat("a graph begins after ", graph_.size(), " of ", graph_bytes_,
                                " bytes of the one before"));
  }
  if (total_bytes < 0) return Damaged(absl::StrCat("a graph has ", total_bytes, " bytes"));
  if (total_bytes > limits_.graph_bytes) {
    return TooMuch(absl::StrCat("a graph has ", total_bytes, " bytes, and this server takes ",
                                limits_.graph_bytes, " (--graph-memory, --cache-max-bytes)"));
  }
  if (total_bytes > limits_.stream_bytes - stream_bytes_) {
    return TooMuch(absl::StrCat("the graphs have more than the ", limits_.stream_bytes,
                                " bytes of this server's cache (--cache-max-bytes)"));
  }
  if (count_ == kMaxImportedGraphs) {
    return TooMuch(absl::StrCat("the stream has more than ", kMaxImportedGraphs, " graphs"));
  }
  ++count_;
  graph_bytes_ = total_bytes;
  stream_bytes_ += total_bytes;
  return absl::OkStatus();
}

absl::Status GraphBytesReader::End() const {
  if (count_ == 0) {
    return absl::InvalidArgumentError("the stream has no graph: send what ExportGraphs gave");
  }
  if (graph_bytes_ == 0) return absl::OkStatus();
  return Damaged(
      absl::StrCat("it ends after ", graph_.size(), " of ", graph_bytes_, " bytes of a graph"));
}

}  // namespace latentd::server::admin
