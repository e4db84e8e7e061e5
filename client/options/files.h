// Reading and writing whole files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::client {

// Messages name the file and the system's reason. "-" is standard input, which can be read once.
// Waits for a pipe as long as it takes. INVALID_ARGUMENT where there are more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

enum class Overwrite { kNever, kReplace };

// ALREADY_EXISTS where there is a file and it may not be replaced. A file appears complete or not
// at all. What is there and is no file (a pipe, /dev/null) is written to.
absl::Status WriteFile(const std::string& path, absl::string_view bytes, Overwrite overwrite);

// A file that is written part by part. As by WriteFile it appears complete or not at all, where it
// is a file: nothing is left of one that is not finished.
class PartFile {
 public:
  // "-" is standard output.
  static absl::StatusOr<std::unique_ptr<PartFile>> Open(const std::string& path,
                                                        Overwrite overwrite);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  absl::Status Write(absl::string_view bytes);
  // There is nothing more to come. ALREADY_EXISTS as WriteFile.
  absl::Status Finish();

 private:
  PartFile(std::string path, std::string temporary, Overwrite overwrite, int descriptor)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        overwrite_(overwrite),
        descriptor_(descriptor) {}

  const std::string path_;
  std::string temporary_;  // name until it is finished; empty: written to as it is
  const Overwrite overwrite_;
  int descriptor_;  // -1: closed
};

absl::Status WriteStandardOutput(absl::string_view bytes);

// ALREADY_EXISTS or NOT_FOUND where WriteFile would fail for certain.
absl::Status CheckWritable(const std::string& path, Overwrite overwrite);

}  // namespace latentd::client
