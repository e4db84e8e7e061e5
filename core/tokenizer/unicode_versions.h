// Differences of transformers' tokenizer from utf8proc's Unicode version (15.0 in Debian 12). The
// tokenizers library (0.23) splits words by Unicode 16, makes lower case by 17 and composes by 9,
// and ids have to be the same.
//
// Thread-safe: free functions without state.
#pragma once

#include "core/tokenizer/unicode.h"

namespace latentd::tokenizer {

// The class of a character that is unassigned in Unicode 15: letters and numbers of 15.1 and 16.
CharacterClass ClassifyUnassigned(char32_t character);

// The lower case of a capital letter of Unicode 16 or 17, or 0.
char32_t LowerCaseSince16(char32_t character);

// True for a mark that normalisation by Unicode 9 does not know: it then neither moves nor composes
// and nothing composes across it.
bool IsInertMark(char32_t character);

}  // namespace latentd::tokenizer
