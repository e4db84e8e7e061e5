#include "server/generation/conversion/field_limits.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/pipeline/spec/fields.h"
#include "core/pipeline/spec/video_fields.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/generation/conversion/video_conversion.h"

namespace latentd::server::generation {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Names of the limits of the fields that are bad.
std::set<absl::string_view> LimitsOf(const std::vector<FieldViolation>& bad,
                                     const std::vector<pipeline::Field>& fields) {
  std::set<absl::string_view> limits;
  for (const FieldViolation& violation : bad) {
    if (violation.field == "priority") limits.insert({"min_priority", "max_priority"});
    for (const pipeline::Field& field : fields) {
      if (field.name == violation.field) limits.insert(field.limits.begin(), field.limits.end());
    }
  }
  return limits;
}

std::string NumberText(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetInt64(message, &field));
    default:
      return absl::StrCat(reflection.GetInt32(message, &field));
  }
}

std::vector<ErrorFact> FactsOf(const std::set<absl::string_view>& limits,
                               const Message& capabilities) {
  std::vector<ErrorFact> facts;
  for (const absl::string_view limit : limits) {
    const std::string name(limit);
    facts.push_back(
        {name, NumberText(capabilities, *capabilities.GetDescriptor()->FindFieldByName(name))});
  }
  return facts;
}

}  // namespace

absl::Status WithLimits(const absl::Status& refused, const engine::Engine& engine,
                        absl::string_view caller, Results results) {
  const std::vector<FieldViolation> bad = GetFieldViolations(refused);
  if (bad.empty() || !GetReason(refused).empty()) return refused;
  const engine::Capabilities capabilities = engine.capabilities();
  const std::vector<ErrorFact> facts =
      results == Results::kVideos
          ? FactsOf(LimitsOf(bad, pipeline::VideoFields()), ToVideoProto(capabilities, caller))
          : FactsOf(LimitsOf(bad, pipeline::Fields()), ToProto(capabilities, caller));
  return WithFacts(WithReason(refused, "BAD_FIELDS"), facts);
}

}  // namespace latentd::server::generation
