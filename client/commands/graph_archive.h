// Compiled graphs as one file: what `latent graphs export` writes and `import` reads.
//
//   8 bytes "latgraf1", then for each graph its size (u64, little-endian) and its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "latent/v1/graph_cache.pb.h"

namespace latentd::client {

// Puts an archive together from the messages of ExportGraphs.
class GraphArchiveWriter {
 public:
  GraphArchiveWriter();

  // DATA_LOSS where the messages do not follow each other as the API says.
  absl::Status Add(const ::latent::v1::GraphBytes& part);
  // DATA_LOSS where the last graph is not complete.
  absl::Status Finish() const;

  int graphs() const { return graphs_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  int graphs_ = 0;
  int64_t missing_ = 0;  // bytes of the last graph
};

// Cuts an archive into the messages of ImportGraphs. Borrows the bytes.
class GraphArchiveReader {
 public:
  // INVALID_ARGUMENT: not an archive, or cut short; nothing is read beyond it.
  static absl::Status Check(absl::string_view archive);

  // REQUIRES: Check(archive) is OK.
  explicit GraphArchiveReader(absl::string_view archive);

  // False: there is no more.
  bool Next(::latent::v1::GraphBytes& part);

 private:
  absl::string_view rest_;
  uint64_t missing_ = 0;  // bytes of the graph at hand
};

}  // namespace latentd::client
