// CLIP's own vocabulary, which latentd ships: every checkpoint of Stable Diffusion 1, 2 and XL has
// it, and one in a single file comes without it.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/strings/string_view.h"
#include "core/tokenizer/merge_list.h"
#include "core/tokenizer/vocabulary.h"

namespace latentd::tokenizer {

// The text of its merges.txt (third_party/clip), which is compiled in.
absl::string_view ClipMerges();

// The tokens of a CLIP vocabulary in the order of their ids follow from its merges: the 256 bytes,
// in the order of the characters that stand for them, the same as a word's last one, what each
// merge makes, and the tokens of the start and the end.
Vocabulary VocabularyOf(const MergeList& merges);

}  // namespace latentd::tokenizer
