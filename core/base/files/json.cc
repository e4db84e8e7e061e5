#include "core/base/files/json.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/unique_json.h"
#include "core/base/text/text.h"

namespace latentd {
namespace {

using Json = nlohmann::json;

// Writers of texts. Of a client's, names are unique and values are counted.
enum class From { kClient, kFile };

// Makes the object while the text is read, and stops at the first reason to refuse it.
class ObjectReader : public nlohmann::json_sax<Json> {
 public:
  explicit ObjectReader(From from) : from_(from) {}

  const std::string& error() const { return error_; }
  Json TakeObject() { return std::move(object_); }

  bool null() override { return Scalar(nullptr); }
  bool boolean(bool value) override { return Scalar(value); }
  bool number_integer(number_integer_t value) override { return Scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return Scalar(value); }
  bool string(string_t& value) override { return Scalar(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("has binary data"); }  // JSON has none
  bool key(string_t& name) override {
    if (from_ == From::kClient && open_.back()->contains(name)) {
      return Refuse(absl::StrCat("has ", Excerpt(name), " twice in one object"));
    }
    member_ = &(*open_.back())[std::move(name)];
    return true;
  }
  bool start_object(size_t) override { return Enter(Json::object()); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return open_.empty() ? NotAnObject() : Enter(Json::array()); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse(absl::StrCat("is not JSON: it goes wrong at byte ", position));
  }

 private:
  // Puts the value into the innermost open object or array. REQUIRES: something is open.
  Json& Place(Json value) {
    Json& parent = *open_.back();
    if (!parent.is_array()) return *member_ = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  bool Scalar(Json value) {
    if (open_.empty()) return NotAnObject();
    if (!CountValue()) return false;
    Place(std::move(value));
    return true;
  }

  // False: it is one too many.
  bool CountValue() {
    if (from_ == From::kFile || ++values_ <= kMaxJsonValues) return true;
    return Refuse(absl::StrCat("has more than ", kMaxJsonValues, " values"));
  }

  bool Enter(Json value) {
    if (!open_.empty() && !CountValue()) return false;
    if (open_.size() == kMaxJsonDepth) {
      return Refuse(absl::StrCat("is nested more than ", kMaxJsonDepth, " deep"));
    }
    open_.push_back(open_.empty() ? &(object_ = std::move(value)) : &Place(std::move(value)));
    return true;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  bool NotAnObject() { return Refuse("is JSON, but not an object {...}"); }

  bool Refuse(std::string error) {
    error_ = std::move(error);
    return false;
  }

  const From from_;
  Json object_;
  size_t values_ = 0;        // a client's so far
  std::vector<Json*> open_;  // the object, and what of it is being read, from the outside in
  Json* member_ = nullptr;   // the member of the innermost object that is read next
  std::string error_;
};

absl::StatusOr<Json> Parse(absl::string_view text, absl::string_view source, size_t max_bytes,
                           From from) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has ", text.size(), " bytes; at most ", max_bytes, " are read"));
  }
  ObjectReader reader(from);
  if (Json::sax_parse(text.begin(), text.end(), &reader)) return reader.TakeObject();
  return absl::InvalidArgumentError(absl::StrCat(source, " ", reader.error()));
}

}  // namespace

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, absl::string_view source,
                                     size_t max_bytes) {
  return Parse(text, source, max_bytes, From::kFile);
}

absl::StatusOr<Json> ParseUniqueJsonObject(absl::string_view text, absl::string_view source,
                                           size_t max_bytes) {
  return Parse(text, source, max_bytes, From::kClient);
}

absl::StatusOr<Json> ReadJsonObject(const std::string& path, size_t max_bytes,
                                    const FileReader& read) {
  ASSIGN_OR_RETURN(const std::string text, read(path, max_bytes));
  return ParseJsonObject(text, path, max_bytes);
}

}  // namespace latentd
