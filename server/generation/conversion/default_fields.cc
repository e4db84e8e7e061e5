#include "server/generation/conversion/default_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/pipeline/spec/fields.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/pipeline/spec/validation.h"
#include "server/generation/conversion/request_conversion.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

// Fields without a row of the table that are no file, embedding or id of a request.
constexpr absl::string_view kOfDelivery[] = {"output", "priority"};

bool IsOfEachRequest(const std::string& field) {
  const std::vector<pipeline::Field>& rows = pipeline::Fields();
  const auto row = absl::c_find_if(rows, [&](const pipeline::Field& row) {
    return row.name == field || absl::StartsWith(row.name, absl::StrCat(field, "."));
  });
  return row == rows.end() ? !absl::c_linear_search(kOfDelivery, field) : row->is_own;
}

// Facts of models that take whatever any takes.
pipeline::Traits AnyTraits() {
  constexpr int kManyLayers = 1 << 10;
  pipeline::ModelTable models = pipeline::ModelTable::FromFlags("any", "any-refiner");
  for (const pipeline::ModelRow& row : models.rows()) {
    models[row.id].default_scheduler = "euler";
    models[row.id].max_clip_skip = kManyLayers;
  }
  return {.models = std::move(models), .feature_cache = true};
}

// Violations of the spec without an image, which strength does not go with, and with one, which
// refine does not.
void AddViolations(pipeline::PictureSpec spec, std::vector<FieldViolation>& violations) {
  const pipeline::Traits traits = AnyTraits();
  pipeline::PictureSpec without_image = spec;
  without_image.strength.reset();
  spec.has_image = true;
  spec.refine = false;
  for (const pipeline::PictureSpec* each : {&without_image, &spec}) {
    for (FieldViolation& found : pipeline::FindViolations(*each, traits)) {
      const bool known = absl::c_linear_search(violations, found);
      if (!known) violations.push_back(std::move(found));
    }
  }
}

}  // namespace

std::vector<FieldViolation> CheckDefaults(const v1::GenerateRequest& defaults) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  defaults.GetReflection()->ListFields(defaults, &fields);
  std::vector<FieldViolation> violations;
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (!IsOfEachRequest(field->name())) continue;
    violations.push_back({field->name(), "is each request's own, and has no default"});
  }
  if (!violations.empty()) return violations;
  v1::GenerateRequest request = defaults;
  request.set_prompt("any");
  ConvertedRequest converted = ToSpec(std::move(request));
  violations = std::move(converted.violations);
  AddViolations(std::move(converted.spec.picture), violations);
  return violations;
}

}  // namespace latentd::server::generation
