#include "server/http/exchange/answer_body.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"

namespace latentd::server::http {
namespace {

constexpr size_t kTakenAtOnce = 256 << 10;
// A piece of this size is sent though there is more.
constexpr size_t kEnoughBytes = 64 << 10;
// Whole groups of three, which become four: pieces need no padding before the end.
constexpr size_t kEncodedAtOnce = 3 * (kTakenAtOnce / 4);

}  // namespace

void AnswerBody::Add(std::string text) {
  if (text.empty()) return;
  auto of = std::make_shared<const std::string>(std::move(text));
  parts_.push_back({.bytes = *of, .of = of});
}

void AnswerBody::AddBytes(absl::string_view bytes, std::shared_ptr<const void> of) {
  if (!bytes.empty()) parts_.push_back({.bytes = bytes, .of = std::move(of)});
}

void AnswerBody::AddBase64(absl::string_view bytes, std::shared_ptr<const void> of) {
  if (!bytes.empty()) parts_.push_back({.bytes = bytes, .base64 = true, .of = std::move(of)});
}

void AnswerBody::Append(AnswerBody more) {
  std::move(more.parts_.begin(), more.parts_.end(), std::back_inserter(parts_));
}

int64_t AnswerBody::SizeOf(const Part& part) {
  const auto bytes = static_cast<int64_t>(part.bytes.size());
  return part.base64 ? (bytes + 2) / 3 * 4 : bytes;
}

int64_t AnswerBody::size() const {
  int64_t size = 0;
  for (const Part& part : parts_) size += SizeOf(part);
  return size;
}

void AnswerBody::TakeFrom(Part& part, std::string& piece) {
  const absl::string_view taken = part.bytes.substr(0, part.base64 ? kEncodedAtOnce : kTakenAtOnce);
  part.bytes.remove_prefix(taken.size());
  if (part.base64) {
    piece += absl::Base64Escape(taken);
  } else {
    piece.append(taken.data(), taken.size());
  }
}

std::string AnswerBody::Take() {
  std::string piece;
  while (!parts_.empty() && piece.size() < kEnoughBytes) {
    TakeFrom(parts_.front(), piece);
    if (parts_.front().bytes.empty()) parts_.pop_front();
  }
  return piece;
}

}  // namespace latentd::server::http
