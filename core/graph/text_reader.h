// Reads words, numbers and lists off the front of a text, for the parser. Whitespace between tokens
// is skipped; ParseText compares the whole against the printer afterwards, so nothing here needs to
// be strict about it. Never reads past the end, and a list never allocates more than its text.
//
// Not thread-safe; borrows the text.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::graph {

class TextReader {
 public:
  explicit TextReader(absl::string_view text) : text_(text) {}

  bool AtEnd();

  // Takes `token` if the text goes on with it.
  bool Take(absl::string_view token);
  // An error says what was expected and what is there.
  absl::Status Expect(absl::string_view token);

  // Letters, digits and underscores; may be empty.
  absl::string_view Word();
  absl::StatusOr<std::string> Quoted();

  template <typename T>
  absl::StatusOr<T> Number() {
    SkipSpace();
    T value{};
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return Expected("a number");
    position_ += end - begin;
    return value;
  }

  // "[1,2,3]" with at most `limit` numbers.
  template <typename T>
  absl::StatusOr<std::vector<T>> Numbers(size_t limit) {
    std::vector<T> values;
    if (!Take("[")) return Expected("[");
    if (Take("]")) return values;
    do {
      if (values.size() >= limit) return Expected("at most " + std::to_string(limit) + " numbers");
      absl::StatusOr<T> value = Number<T>();
      if (!value.ok()) return value.status();
      values.push_back(*value);
    } while (Take(","));
    if (!Take("]")) return Expected("]");
    return values;
  }

  // INVALID_ARGUMENT: what was expected at which line.
  absl::Status Expected(absl::string_view what) const;
  int line() const;

 private:
  void SkipSpace();

  absl::string_view text_;
  size_t position_ = 0;
};

}  // namespace latentd::graph
