#include "core/base/text/utf8.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace latentd {
namespace {

// The bytes of a sequence that starts with `lead`; 0 where none can.
size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation byte, or an overlong form
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Overlong forms, surrogates and what lies above U+10FFFF show in the second byte.
bool SecondByteFits(unsigned char lead, unsigned char second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second < 0xA0;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second < 0x90;
  return true;
}

// The bytes of the character that `text` begins with; 0 where it begins with none. REQUIRES: it is
// not empty.
size_t CharacterLength(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t length = SequenceLength(lead);
  if (length == 0 || length > text.size()) return 0;
  const absl::string_view rest = text.substr(1, length - 1);
  if (!std::all_of(rest.begin(), rest.end(), IsContinuation)) return 0;
  const bool fits = rest.empty() || SecondByteFits(lead, static_cast<unsigned char>(rest.front()));
  return fits ? length : 0;
}

// The bytes of all characters before the first byte that is part of none.
size_t Utf8Length(absl::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const size_t next = CharacterLength(text.substr(length));
    if (next == 0) break;
    length += next;
  }
  return length;
}

}  // namespace

bool IsUtf8(absl::string_view text) { return Utf8Length(text) == text.size(); }

std::string ToUtf8(absl::string_view text) {
  std::string utf8;
  while (true) {
    const size_t length = Utf8Length(text);
    utf8.append(text.data(), length);
    text.remove_prefix(length);
    if (text.empty()) return utf8;
    absl::StrAppend(&utf8, "\\x", absl::BytesToHexString(text.substr(0, 1)));
    text.remove_prefix(1);
  }
}

}  // namespace latentd
