// The bytes of an answer: texts, and pictures as they are or in base64, which are encoded piece by
// piece as they are sent, from where the engine's event has them: no answer is in memory twice.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace latentd::server::http {

// Not thread-safe.
class AnswerBody {
 public:
  AnswerBody() = default;
  explicit AnswerBody(std::string text) { Add(std::move(text)); }

  void Add(std::string text);
  // Both: `of` keeps the bytes alive.
  void AddBytes(absl::string_view bytes, std::shared_ptr<const void> of);
  void AddBase64(absl::string_view bytes, std::shared_ptr<const void> of);
  void Append(AnswerBody more);

  // Bytes that have not been taken.
  int64_t size() const;
  bool empty() const { return parts_.empty(); }

  // The next bytes: all where they are few, else some 256 KiB. REQUIRES: !empty().
  std::string Take();

 private:
  struct Part {
    absl::string_view bytes;  // bytes not taken
    bool base64 = false;
    std::shared_ptr<const void> of;
  };

  static int64_t SizeOf(const Part& part);
  static void TakeFrom(Part& part, std::string& piece);

  std::deque<Part> parts_;
};

}  // namespace latentd::server::http
