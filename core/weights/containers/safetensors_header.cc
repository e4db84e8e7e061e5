#include "core/weights/containers/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kMetadata = "__metadata__";
constexpr absl::string_view kFields[] = {"dtype", "shape", "data_offsets"};
constexpr absl::string_view kSpace = " \n\t\r";
// As deep as the reference reader goes into what it ignores.
constexpr int kMaxDepth = 127;

// Takes the header's events: depth 1 is name -> entry, depth 2 is field -> value, depth 3 is the
// numbers of an array. Anything else is refused where it comes, so depth cannot grow, but for
// fields that no entry needs: these are passed over.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }
  // Keeps the last of several entries with one name.
  SafetensorsHeader TakeHeader() {
    SafetensorsHeader header{.entries = {}, .metadata = std::move(metadata_)};
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (last_.at(entries_[i].name) == i) header.entries.push_back(std::move(entries_[i]));
    }
    return header;
  }

  bool null() override {
    // Allows null for "__metadata__" itself.
    if (IsIgnored() || (depth_ == 1 && in_metadata_)) return true;
    return Refuse("has null where none may be");
  }
  bool boolean(bool) override {
    return IsIgnored() || Refuse("has a truth value where none may be");
  }
  bool number_float(number_float_t, const string_t&) override { return IsIgnored() || NotWhole(); }
  bool binary(binary_t&) override { return Refuse("has binary data where none may be"); }
  bool number_integer(number_integer_t) override { return IsIgnored() || NotWhole(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (IsIgnored()) return true;
    if (array_ == nullptr || depth_ != 3) return Refuse("has a number where none may be");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return NotWhole();
    array_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (IsIgnored()) return true;
    if (depth_ == 2 && in_metadata_) return AddMetadata(value);
    if (depth_ != 2 || field_ != "dtype") return Refuse("has text where none may be");
    entries_.back().dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (IsIgnored()) return EnterIgnored();
    if (depth_ >= 2) return Refuse("has an object where none may be");
    if (++depth_ == 2 && !in_metadata_) AddEntry();
    return true;
  }

  bool end_object() override {
    if (ignored_depth_ > 0) return LeaveIgnored();
    ignores_field_ = false;
    if (depth_-- == 1 || in_metadata_) return true;
    for (absl::string_view field : kFields) {
      if (!fields_.contains(field)) return Refuse(absl::StrCat("has no \"", field, "\""));
    }
    if (entries_.back().offsets.size() == 2) return true;
    return Refuse("needs two numbers, begin and end, in \"data_offsets\"");
  }

  bool start_array(size_t) override {
    if (IsIgnored()) return EnterIgnored();
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets")) {
      return Refuse("has a list where none may be");
    }
    ++depth_;
    array_ = field_ == "shape" ? &entries_.back().shape : &entries_.back().offsets;
    return true;
  }

  bool end_array() override {
    if (ignored_depth_ > 0) return LeaveIgnored();
    --depth_;
    array_ = nullptr;
    return true;
  }

  bool key(string_t& key) override {
    if (ignored_depth_ > 0) return true;
    return depth_ == 1 ? EnterName(key) : EnterField(key);
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = absl::StrCat("the header is not JSON: it goes wrong at byte ", position);
    return false;
  }

 private:
  bool EnterName(const std::string& name) {
    named_ = true;
    name_ = name;
    in_metadata_ = name == kMetadata;
    fields_.clear();
    if (!in_metadata_ || !std::exchange(has_metadata_, true)) return true;
    return Refuse("comes twice");
  }

  void AddEntry() {
    last_.insert_or_assign(name_, entries_.size());
    entries_.push_back({name_});
  }

  bool AddMetadata(const std::string& value) {
    if (field_ == kLoraConfigKey) return AddLoraConfig(value);
    if (field_ == kTagsKey) return AddTags(value);
    const size_t bytes = field_.size() + value.size();
    if (value.size() > kMaxMetadataValueBytes || bytes > kMaxMetadataBytes - metadata_bytes_) {
      return true;
    }
    metadata_bytes_ += bytes;
    metadata_.insert_or_assign(field_, value);
    return true;
  }

  bool AddTags(const std::string& value) {
    if (value.size() <= kMaxTagsBytes) metadata_.insert_or_assign(field_, value);
    return true;
  }

  bool AddLoraConfig(const std::string& value) {
    metadata_.insert_or_assign(field_, value);
    if (value.size() <= kMaxLoraConfigBytes) return true;
    return Refuse(absl::StrCat("has ", kLoraConfigKey, " of ", value.size(), " bytes; at most ",
                               kMaxLoraConfigBytes, " are read"));
  }

  bool EnterField(const std::string& field) {
    field_ = field;
    if (in_metadata_) return true;
    ignores_field_ = std::find(std::begin(kFields), std::end(kFields), field) == std::end(kFields);
    if (ignores_field_ || fields_.insert(field).second) return true;
    return Refuse(absl::StrCat("has \"", field, "\" twice"));
  }

  // True if the next value is of a field that no entry needs, or in it.
  bool IsIgnored() const { return ignores_field_; }
  bool EnterIgnored() {
    if (depth_ + ++ignored_depth_ <= kMaxDepth) return true;
    return Refuse(absl::StrCat("is nested more than ", kMaxDepth, " deep"));
  }
  bool LeaveIgnored() {
    --ignored_depth_;
    return true;
  }

  bool NotWhole() {
    return Refuse(
        "has a number that is negative, broken or too large; whole numbers from 0 on may "
        "be there");
  }

  bool Refuse(absl::string_view error) {
    const std::string subject = named_ ? "tensor " + Excerpt(name_, kNameBytes) : "the header";
    error_ = absl::StrCat(subject, " ", error);
    return false;
  }

  int depth_ = 0;          // but for what is ignored
  int ignored_depth_ = 0;  // number of open ones in the value of an ignored field
  bool ignores_field_ = false;
  bool named_ = false;  // a name has come
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  std::string name_;
  std::string field_;
  std::vector<int64_t>* array_ = nullptr;
  absl::flat_hash_set<std::string> fields_;  // fields of the current entry
  std::vector<HeaderEntry> entries_;
  absl::flat_hash_map<std::string, std::string> metadata_;
  size_t metadata_bytes_ = 0;
  absl::flat_hash_map<std::string, size_t> last_;  // the last of each name, in entries_
  std::string error_;
};

// Around an object there may be space and nothing else: the parser would pass over a byte order
// mark, and end at a zero byte.
bool IsObjectText(absl::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  const size_t end = text.find_last_not_of(kSpace);
  return begin != text.npos && text[begin] == '{' && text[end] == '}' &&
         !absl::StrContains(text, '\0');
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         const std::string& file) {
  HeaderReader reader;
  if (!IsObjectText(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the header is not JSON: it is no object {...}"));
  }
  if (Json::sax_parse(text.begin(), text.end(), &reader)) return reader.TakeHeader();
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", reader.error()));
}

}  // namespace latentd::weights
