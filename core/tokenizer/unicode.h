// The Unicode that CLIP's tokenizer needs, on code points: decoding, its normalisation, character
// classes. Data from utf8proc (Unicode 15 in Debian 12) and a table of what is younger.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace latentd::tokenizer {

// Every maximal ill-formed part of `bytes` becomes one U+FFFD (the practice that the Unicode
// standard recommends in 3.9, and Python's errors="replace").
std::u32string DecodeUtf8(absl::string_view bytes);

// REQUIRES: scalar values only, as DecodeUtf8 gives.
std::string EncodeUtf8(std::u32string_view text);

// NFC, then each run of white space to one space, then lower case character by character (no final
// sigma). Takes n log n time, whatever the text.
std::u32string Normalize(std::u32string text);

enum class CharacterClass : uint8_t { kSpace, kLetter, kNumber, kOther };
CharacterClass Classify(char32_t character);

// True for \w of regular expressions (Unicode Technical Standard 18, annex C): letters, marks,
// digits, connecting punctuation, joiners, and characters that are used as letters.
bool IsWordCharacter(char32_t character);

}  // namespace latentd::tokenizer
