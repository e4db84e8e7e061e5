#include "core/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>

#include "core/tokenizer/unicode_versions.h"

namespace latentd::tokenizer {
namespace {

constexpr char32_t kReplacement = U'\uFFFD';

// How many bytes a sequence that begins with `lead` has, or 0 if none does.
int SequenceLength(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// True if `byte` may be the second one after `lead`: refuses overlong forms, surrogates and
// characters above U+10FFFF.
bool MayFollow(uint8_t lead, uint8_t byte) {
  if (lead == 0xE0) return byte >= 0xA0 && byte < 0xC0;
  if (lead == 0xED) return byte >= 0x80 && byte < 0xA0;
  if (lead == 0xF0) return byte >= 0x90 && byte < 0xC0;
  if (lead == 0xF4) return byte >= 0x80 && byte < 0x90;
  return byte >= 0x80 && byte < 0xC0;
}

// Decodes what begins at `begin` and moves `begin` behind it.
char32_t DecodeOne(absl::string_view bytes, size_t& begin) {
  const auto lead = static_cast<uint8_t>(bytes[begin++]);
  const int length = SequenceLength(lead);
  if (length == 0) return kReplacement;
  if (length == 1) return lead;
  char32_t character = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    const auto byte = begin < bytes.size() ? static_cast<uint8_t>(bytes[begin]) : uint8_t{0};
    if (i == 1 ? !MayFollow(lead, byte) : (byte & 0xC0) != 0x80) return kReplacement;
    character = character << 6 | (byte & 0x3F);
    ++begin;
  }
  return character;
}

int CombiningClass(char32_t character) {
  if (IsInertMark(character)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

// Composed since Unicode 13 only.
constexpr char32_t kInertLetter = 0x11938;

// Canonical decomposition, not yet in canonical order.
std::u32string Decompose(std::u32string_view text) {
  std::u32string decomposed;
  decomposed.reserve(text.size());
  for (const char32_t character : text) {
    // The longest canonical decomposition has four characters.
    utf8proc_int32_t parts[8];
    int last_boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts, std::size(parts),
                                UTF8PROC_DECOMPOSE, &last_boundary_class);
    if (character == kInertLetter || count < 1 ||
        count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
      decomposed.push_back(character);
    } else {
      decomposed.append(parts, parts + count);
    }
  }
  return decomposed;
}

// Sorts each run of combining marks by class. (utf8proc's own loop swaps neighbours, which takes
// hours for a megabyte of marks in the wrong order.)
void OrderMarks(std::u32string& text) {
  auto is_mark = [](char32_t character) { return CombiningClass(character) != 0; };
  auto by_class = [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); };
  for (auto run = text.begin(); run != text.end();) {
    run = std::find_if(run, text.end(), is_mark);
    const auto end = std::find_if_not(run, text.end(), is_mark);
    std::stable_sort(run, end, by_class);
    run = end;
  }
}

// Composes text[begin, end) in place and returns the new end.
size_t ComposeRun(std::u32string& text, size_t begin, size_t end) {
  static_assert(sizeof(char32_t) == sizeof(utf8proc_int32_t));
  const utf8proc_ssize_t length =
      utf8proc_normalize_utf32(reinterpret_cast<utf8proc_int32_t*>(text.data() + begin),
                               static_cast<utf8proc_ssize_t>(end - begin),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return length < 0 ? end : begin + static_cast<size_t>(length);
}

// Composes between inert marks.
void Compose(std::u32string& text) {
  size_t written = 0;
  for (size_t begin = 0; begin < text.size();) {
    const auto mark = std::find_if(text.begin() + begin, text.end(), IsInertMark);
    const size_t end = mark - text.begin();
    const size_t composed_end = ComposeRun(text, begin, end);
    const size_t next = mark == text.end() ? end : end + 1;
    written = std::copy(text.begin() + begin, text.begin() + composed_end, text.begin() + written) -
              text.begin();
    if (next != end) text[written++] = *mark;
    begin = next;
  }
  text.resize(written);
}

bool IsAscii(std::u32string_view text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
}

void AppendLower(char32_t character, std::u32string& text) {
  if (character == U'\u0130') {  // the one letter whose full lower case has two characters
    text += U"i\u0307";
  } else if (const char32_t younger = LowerCaseSince16(character); younger != 0) {
    text.push_back(younger);
  } else {
    text.push_back(
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
  }
}

}  // namespace

std::u32string DecodeUtf8(absl::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (size_t begin = 0; begin < bytes.size();) text.push_back(DecodeOne(bytes, begin));
  return text;
}

std::string EncodeUtf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const char32_t character : text) {
    utf8proc_uint8_t encoded[4];
    const utf8proc_ssize_t length =
        utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), encoded);
    bytes.append(encoded, encoded + length);
  }
  return bytes;
}

std::u32string Normalize(std::u32string text) {
  if (!IsAscii(text)) {
    text = Decompose(text);
    OrderMarks(text);
    Compose(text);
  }
  std::u32string normalized;
  normalized.reserve(text.size());
  bool after_space = false;
  for (const char32_t character : text) {
    const bool space = Classify(character) == CharacterClass::kSpace;
    if (!space) {
      AppendLower(character, normalized);
    } else if (!after_space) {
      normalized.push_back(U' ');
    }
    after_space = space;
  }
  return normalized;
}

CharacterClass Classify(char32_t character) {
  if ((character >= 0x9 && character <= 0xD) || character == 0x85) return CharacterClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::kSpace;
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    case UTF8PROC_CATEGORY_CN:
      return ClassifyUnassigned(character);
    default:
      return CharacterClass::kOther;
  }
}

bool IsWordCharacter(char32_t character) {
  if (Classify(character) == CharacterClass::kLetter) return true;
  if (character == 0x200C || character == 0x200D) return true;  // joiners
  // Circled and squared Latin letters, which are symbols.
  if (character >= 0x24B6 && character <= 0x24E9) return true;
  if (character >= 0x1F130 && character <= 0x1F189) {
    return character <= 0x1F149 || (character >= 0x1F150 && character <= 0x1F169) ||
           character >= 0x1F170;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_CN:
      return ClassifyUnassigned(character) == CharacterClass::kNumber;
    default:
      return false;
  }
}

}  // namespace latentd::tokenizer
