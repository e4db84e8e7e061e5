#include "core/pipeline/plan/named_adapter.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::pipeline {
namespace {

constexpr size_t kMostModelsNamed = 5;

}  // namespace

std::string WhyNoAdapter(const LoadedModel& model, AdapterKind kind, const AdapterFacts& facts) {
  if (facts.kind != kind) {
    if (kind == AdapterKind::kLora && facts.kind == AdapterKind::kTextualInversion) {
      return absl::StrCat(facts.name, " is a textual inversion: write its word in the prompt");
    }
    return absl::StrCat(facts.name, " is no ", NameOf(kind), " but of the kind ",
                        NameOf(facts.kind));
  }
  if (absl::c_linear_search(facts.models, model.row().name)) return "";
  return absl::StrCat(facts.name, " is not for the model ", model.row().name, "; it is for ",
                      ListSome(facts.models, kMostModelsNamed));
}

absl::StatusOr<AdapterFacts> FindAdapter(adapters::Catalogue* catalogue, const LoadedModel& model,
                                         AdapterKind kind, const std::string& field,
                                         const std::string& name) {
  const auto wrong = [&](absl::string_view why) {
    return InvalidFields({{absl::StrCat(field, ".name"), std::string(why)}});
  };
  if (catalogue == nullptr) {
    return wrong(
        absl::StrCat("this server has no ", NameOf(kind), "s (start it with --adapters=DIR)"));
  }
  absl::StatusOr<AdapterFacts> facts = catalogue->Find(name);
  if (absl::IsNotFound(facts.status())) return wrong(facts.status().message());
  RETURN_IF_ERROR(facts.status());
  const std::string why = WhyNoAdapter(model, kind, *facts);
  if (!why.empty()) return wrong(why);
  return facts;
}

absl::StatusOr<image::Dimensions> ReadAdapterImage(const std::string& field,
                                                   absl::string_view image, absl::string_view use) {
  if (image.empty()) return InvalidFields({{field, absl::StrCat("is ", use, ": set it")}});
  const absl::StatusOr<image::Dimensions> read = image::ReadDimensions(image);
  if (read.ok()) return read;
  return InvalidFields({{field, std::string(read.status().message())}});
}

}  // namespace latentd::pipeline
