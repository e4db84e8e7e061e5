// Pieces of messages, worded in the same way everywhere.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd {

// Input of a client or of a file, escaped for a message; more than `max_bytes` of it end in
// "...".
std::string Excerpt(absl::string_view input, size_t max_bytes = 64);

// The first of them, and how many there are beside them: "a, b, and 7 more".
std::string ListSome(absl::Span<const std::string> items, size_t most,
                     absl::string_view separator = ", ");

// "256x192".
std::string SizeText(int64_t width, int64_t height);

// The same of whatever has both.
template <typename Size>
std::string SizeText(const Size& size) {
  return SizeText(size.width, size.height);
}

}  // namespace latentd
