#include "core/weights/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace latentd::weights {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kMetadata = "__metadata__";
constexpr size_t kMaxDimensions = 64;

// Takes the header's events: depth 1 is name -> entry, depth 2 is field -> value, depth 3 is the
// numbers of an array. Anything else is refused where it comes, so depth cannot grow.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }
  std::vector<HeaderEntry> TakeEntries() { return std::move(entries_); }

  bool null() override { return Refuse("has null where none may be"); }
  bool boolean(bool) override { return Refuse("has a truth value where none may be"); }
  bool number_float(number_float_t, const string_t&) override { return NotWhole(); }
  bool binary(binary_t&) override { return Refuse("has binary data where none may be"); }
  bool number_integer(number_integer_t) override { return NotWhole(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (array_ == nullptr || depth_ != 3) return Refuse("has a number where none may be");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return NotWhole();
    if (array_->size() == kMaxDimensions) {
      return Refuse(absl::StrCat("has a list of more than ", kMaxDimensions, " numbers"));
    }
    array_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || field_ != "dtype") return Refuse("has text where none may be");
    entries_.back().dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ >= 2) return Refuse("has an object where none may be");
    if (++depth_ == 2 && !in_metadata_) entries_.push_back({name_});
    return true;
  }

  bool end_object() override {
    if (depth_-- == 1 || in_metadata_) return true;
    for (absl::string_view field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) return Refuse(absl::StrCat("has no \"", field, "\""));
    }
    if (entries_.back().offsets.size() == 2) return true;
    return Refuse("needs two numbers, begin and end, in \"data_offsets\"");
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets")) {
      return Refuse("has a list where none may be");
    }
    ++depth_;
    array_ = field_ == "shape" ? &entries_.back().shape : &entries_.back().offsets;
    return true;
  }

  bool end_array() override {
    --depth_;
    array_ = nullptr;
    return true;
  }

  bool key(string_t& key) override { return depth_ == 1 ? EnterName(key) : EnterField(key); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = absl::StrCat("the header is not JSON: it goes wrong at byte ", position);
    return false;
  }

 private:
  bool EnterName(const std::string& name) {
    name_ = name;
    in_metadata_ = name == kMetadata;
    fields_.clear();
    return names_.insert(name).second || Refuse("comes twice; each name may come once");
  }

  bool EnterField(const std::string& field) {
    field_ = field;
    if (!fields_.insert(field).second) {
      return Refuse(absl::StrCat("has \"", Excerpt(field, kNameBytes), "\" twice"));
    }
    if (in_metadata_ || field == "dtype" || field == "shape" || field == "data_offsets") {
      return true;
    }
    return Refuse(absl::StrCat("has \"", Excerpt(field, kNameBytes),
                               "\"; only dtype, shape and data_offsets may be there"));
  }

  bool NotWhole() {
    return Refuse(
        "has a number that is negative, broken or too large; whole numbers from 0 on may "
        "be there");
  }

  bool Refuse(absl::string_view error) {
    const std::string subject =
        names_.empty() ? "the header" : "tensor " + Excerpt(name_, kNameBytes);
    error_ = absl::StrCat(subject, " ", error);
    return false;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_;
  std::string field_;
  std::vector<int64_t>* array_ = nullptr;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_set<std::string> fields_;  // of the current entry
  std::vector<HeaderEntry> entries_;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(absl::string_view text,
                                                                const std::string& file) {
  HeaderReader reader;
  if (absl::StartsWith(text, "{") && Json::sax_parse(text.begin(), text.end(), &reader)) {
    return reader.TakeEntries();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": ", reader.error().empty() ? "the header does not begin with {" : reader.error()));
}

}  // namespace latentd::weights
