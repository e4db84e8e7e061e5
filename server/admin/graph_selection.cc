#include "server/admin/graph_selection.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "core/engine/api/config.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/generation/conversion/type_rules.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

constexpr int kMaxNames = 1024;
constexpr size_t kMinIdDigits = 6;
constexpr size_t kMaxIdDigits = 32;
constexpr absl::string_view kIdRule = "must be 6 to 32 hexadecimal digits, as ListGraphs has them";

bool IsId(const std::string& id) {
  const auto is_digit = [](unsigned char c) { return absl::ascii_isxdigit(c); };
  return id.size() >= kMinIdDigits && id.size() <= kMaxIdDigits &&
         std::all_of(id.begin(), id.end(), is_digit);
}

void CheckIds(const v1::GraphSelector& selector, std::vector<FieldViolation>& violations) {
  for (int i = 0; i < selector.ids_size(); ++i) {
    if (IsId(selector.ids(i))) continue;
    violations.push_back({absl::StrCat("selector.ids[", i, "]"),
                          absl::StrCat("\"", Excerpt(selector.ids(i)), "\" ", kIdRule)});
  }
}

void CheckComponents(const v1::GraphSelector& selector, std::vector<FieldViolation>& violations) {
  for (int i = 0; i < selector.components_size(); ++i) {
    const std::string& component = selector.components(i);
    if (absl::c_linear_search(engine::kGraphComponents, component)) continue;
    violations.push_back(
        {absl::StrCat("selector.components[", i, "]"),
         absl::StrCat("there is no component \"", Excerpt(component), "\"; there are ",
                      absl::StrJoin(engine::kGraphComponents, ", "))});
  }
}

void CheckBuckets(const v1::GraphSelector& selector, std::vector<FieldViolation>& violations) {
  for (int i = 0; i < selector.buckets_size(); ++i) {
    const v1::BucketSize& size = selector.buckets(i);
    if (size.width() > 0 && size.height() > 0 && size.num_frames() >= 0) continue;
    violations.push_back(
        {absl::StrCat("selector.buckets[", i, "]"),
         absl::StrCat("width and height must be positive and num_frames not negative, not ",
                      size.width(), ", ", size.height(), " and ", size.num_frames())});
  }
}

void CheckCount(absl::string_view field, int count, std::vector<FieldViolation>& violations) {
  if (count <= kMaxNames) return;
  violations.push_back({std::string(field), absl::StrCat("has ", count, " entries; at most ",
                                                         kMaxNames, " are allowed")});
}

std::vector<FieldViolation> CheckSelector(const v1::GraphSelector& selector) {
  std::vector<FieldViolation> violations;
  CheckCount("selector.ids", selector.ids_size(), violations);
  CheckCount("selector.models", selector.models_size(), violations);
  CheckCount("selector.components", selector.components_size(), violations);
  CheckCount("selector.buckets", selector.buckets_size(), violations);
  if (!violations.empty()) return violations;
  CheckIds(selector, violations);
  CheckComponents(selector, violations);
  CheckBuckets(selector, violations);
  const bool empty = !selector.all() && selector.ids().empty() && selector.components().empty() &&
                     selector.buckets().empty() && selector.models().empty();
  if (empty) {
    violations.push_back(
        {"selector", "selects nothing: set all, ids, components, buckets or models"});
  }
  return violations;
}

}  // namespace

absl::StatusOr<engine::GraphSelector> ToSelector(const google::protobuf::Message& request,
                                                 const v1::GraphSelector& selector) {
  std::vector<FieldViolation> violations = CheckSelector(selector);
  generation::CheckTypes(request, violations);
  if (!violations.empty()) return InvalidFields(violations);
  engine::GraphSelector read;
  read.all = selector.all();
  for (const std::string& id : selector.ids()) read.ids.push_back(absl::AsciiStrToLower(id));
  read.models.assign(selector.models().begin(), selector.models().end());
  read.components.assign(selector.components().begin(), selector.components().end());
  for (const v1::BucketSize& size : selector.buckets())
    read.buckets.push_back(generation::FromProto(size));
  return read;
}

absl::StatusOr<std::string> ReadId(const std::string& id) {
  if (!IsId(id)) return InvalidFields({{"id", std::string(kIdRule)}});
  return absl::AsciiStrToLower(id);
}

}  // namespace latentd::server::admin
