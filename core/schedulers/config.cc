#include "core/schedulers/config.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/schedulers/config/config_fields.h"
#include "core/schedulers/config/config_json.h"
#include "core/schedulers/scheduler_names.h"
#include "core/schedulers/scheduler_table.h"

namespace latentd::schedulers {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kFile = "scheduler_config.json";

// The overrides that a request spells out, by the name of their field.
std::map<std::string, Json> TypedFields(const Overrides& overrides) {
  std::map<std::string, Json> fields;
  const auto add = [&](const char* name, const auto& value) {
    if (value) fields[name] = *value;
  };
  add("timestep_spacing", overrides.timestep_spacing);
  add("prediction_type", overrides.prediction_type);
  add("algorithm_type", overrides.algorithm_type);
  add("use_karras_sigmas", overrides.use_karras_sigmas);
  add("rescale_betas_zero_snr", overrides.rescale_betas_zero_snr);
  return fields;
}

std::string ClassName(const Json& file) {
  const auto found = file.find("_class_name");
  return found != file.end() && found->is_string() ? found->get<std::string>() : "";
}

// `own` is a class and never a short name.
absl::StatusOr<SchedulerChoice> ChooseScheduler(absl::string_view override, absl::string_view own) {
  if (!override.empty()) {
    absl::StatusOr<SchedulerChoice> choice = ChooseByName(override);
    if (choice.ok()) return choice;
    return InvalidFields({{"scheduler", std::string(choice.status().message())}});
  }
  const absl::StatusOr<SchedulerChoice> choice = ChooseByName(own);
  if (choice.ok() && choice->row->scheduler->class_name == own) return choice;
  return absl::InvalidArgumentError(absl::StrCat(kFile, ": unsupported _class_name ", Excerpt(own),
                                                 "; supported are ",
                                                 absl::StrJoin(SupportedSchedulerClasses(), ", ")));
}

// The settings that a name makes, over those of the file.
void ApplyName(const SchedulerChoice& choice, SchedulerConfig& config) {
  if (choice.grid != nullptr) {
    config.named_grid = choice.grid->grid;
    config.use_karras_sigmas = config.use_exponential_sigmas = false;
    config.use_beta_sigmas = config.use_lu_lambdas = false;
  }
  if (choice.by_class) return;
  const SchedulerRow& row = *choice.row;
  config.algorithm_type = row.algorithm_type.value_or(config.algorithm_type);
  config.solver_type = row.solver_type.value_or(config.solver_type);
  config.solver_order = row.solver_order.value_or(config.solver_order);
}

// The names that no scheduler of diffusers' has, escaped.
std::vector<std::string> UnknownFields(const Json& fields) {
  std::vector<std::string> names;
  for (const auto& [name, value] : fields.items()) {
    if (absl::StartsWith(name, "_") || FindField(name) != nullptr || IsForeignField(name)) continue;
    names.push_back(Excerpt(name));
  }
  return names;
}

// Reads the fields of one object over a configuration, and gathers what is wrong with them.
class FieldReader {
 public:
  explicit FieldReader(const Scheduler& scheduler) : scheduler_(scheduler) {
    config_.scheduler = &scheduler;
    if (scheduler_.set_defaults != nullptr) scheduler_.set_defaults(config_);
  }

  SchedulerConfig& config() { return config_; }

  // Fields of a file: one that the scheduler does not have is passed over.
  void ReadFile(const Json& fields, absl::string_view source) {
    for (const auto& [name, value] : fields.items()) {
      if (!scheduler_.HasField(name)) continue;
      const std::optional<std::string> mistake = FindField(name)->read(value, config_);
      if (mistake)
        mistakes_.push_back(
            absl::StrCat(source, ": ", name, " ", *mistake, ", not ", Excerpt(value.dump())));
    }
  }

  // Fields that a request asks for: one that only other schedulers have is a mistake, unless it is
  // switched off.
  void ReadTyped(const std::map<std::string, Json>& fields) {
    for (const auto& [name, value] : fields) {
      if (!scheduler_.HasField(name)) {
        if (value != false)
          violations_.push_back({name, absl::StrCat(config_.name(), " has no such option")});
        continue;
      }
      const std::optional<std::string> mistake = FindField(name)->read(value, config_);
      if (mistake)
        violations_.push_back({name, absl::StrCat(*mistake, ", not ", Excerpt(value.dump()))});
    }
  }

  // Refuses an algorithm_type beside a name that has settings which no name has with it: answers
  // would name another scheduler.
  void CheckNamed(const SchedulerChoice& choice, const std::map<std::string, Json>& typed) {
    if (choice.by_class || typed.count("algorithm_type") == 0) return;
    const SchedulerRow &own = *choice.row, &said = RowOf(config_);
    if ((!own.solver_order || said.solver_order == own.solver_order) &&
        (!own.solver_type || said.solver_type == own.solver_type)) {
      return;
    }
    violations_.push_back({"algorithm_type", absl::StrCat(own.name, " has its own: name ",
                                                          scheduler_.class_name, " instead")});
  }

  // Checks fields that are wrong only in combination. `typed` are the fields that a request set,
  // whose fault it then is.
  void CheckTogether(const std::map<std::string, Json>& typed) {
    if (scheduler_.find_mistake != nullptr) {
      if (const auto mistake = scheduler_.find_mistake(config_)) Add(*mistake, typed);
    }
    const int spreads = config_.use_karras_sigmas + config_.use_exponential_sigmas +
                        config_.use_beta_sigmas + config_.use_lu_lambdas;
    if (spreads > 0 && config_.named_grid) {
      Add({"use_karras_sigmas", "cannot be combined with the grid behind the scheduler's name"},
          typed);
    } else if (spreads > 1) {
      Add({"use_karras_sigmas",
           "at most one of use_karras_sigmas, use_exponential_sigmas, use_beta_sigmas and "
           "use_lu_lambdas"},
          typed);
    }
    const auto steps = static_cast<size_t>(config_.num_train_timesteps);
    if (config_.trained_betas && config_.trained_betas->size() != steps) {
      Add({"trained_betas", absl::StrCat("must be as many as num_train_timesteps, ", steps)},
          typed);
    }
    if (config_.clip_sample) {
      Add({"clip_sample",
           "must be false (diffusers' default for DDIM is true): it is not linear in what a step "
           "combines"},
          typed);
    }
  }

  absl::Status Finish() const {
    if (!mistakes_.empty()) return absl::InvalidArgumentError(absl::StrJoin(mistakes_, "; "));
    return violations_.empty() ? absl::OkStatus() : InvalidFields(violations_);
  }

 private:
  void Add(FieldViolation mistake, const std::map<std::string, Json>& typed) {
    if (typed.count(mistake.field) != 0) {
      violations_.push_back(std::move(mistake));
    } else {
      mistakes_.push_back(absl::StrCat(kFile, ": ", mistake.field, ": ", mistake.description));
    }
  }

  const Scheduler& scheduler_;
  SchedulerConfig config_;
  std::vector<std::string> mistakes_;  // mistakes in the files
  std::vector<FieldViolation> violations_;
};

// Overrides::config. A field that none knows would be asked for in vain.
absl::StatusOr<Json> ReadOverrides(const Overrides& overrides) {
  constexpr absl::string_view kSource = "the scheduler's overrides";
  if (overrides.config.empty()) return Json::object();
  ASSIGN_OR_RETURN(Json fields, ParseConfigJson(overrides.config, kSource));
  const std::vector<std::string> unknown = UnknownFields(fields);
  if (unknown.empty()) return fields;
  return absl::InvalidArgumentError(
      absl::StrCat(kSource, ": unknown field ", absl::StrJoin(unknown, ", ")));
}

}  // namespace

absl::Status CheckSchedulerName(absl::string_view name) { return ChooseByName(name).status(); }

std::vector<std::string> SupportedSchedulers() {
  std::vector<std::string> names;
  for (const SchedulerRow& row : SchedulerTable()) names.emplace_back(row.name);
  return names;
}

std::vector<SchedulerNames> NamesOfSchedulers() {
  std::vector<SchedulerNames> all;
  std::set<absl::string_view> classes;
  for (const SchedulerRow& row : SchedulerTable()) {
    SchedulerNames& names = all.emplace_back();
    names.name = std::string(row.name);
    names.aliases = absl::StrSplit(row.aliases, ' ', absl::SkipEmpty());
    if (!row.sampler.empty()) names.aliases.emplace_back(row.sampler);
    const absl::string_view class_name = row.scheduler->class_name;
    if (classes.insert(class_name).second && !class_name.empty()) {
      names.aliases.emplace_back(class_name);
    }
    if (row.scheduler->has_own_grid) continue;
    for (const GridRow& grid : GridTable()) names.grids.emplace_back(grid.name);
  }
  return all;
}

struct SchedulerFile::Parsed {
  Json fields;
  std::string class_name;
  AlignYourStepsTable align_your_steps;
};

absl::StatusOr<SchedulerFile> SchedulerFile::Parse(absl::string_view json,
                                                   absl::string_view class_name,
                                                   AlignYourStepsTable align_your_steps) {
  ASSIGN_OR_RETURN(Json fields, ParseConfigJson(json, kFile));
  std::string own = class_name.empty() ? ClassName(fields) : std::string(class_name);
  return SchedulerFile(
      std::make_shared<const Parsed>(Parsed{std::move(fields), std::move(own), align_your_steps}));
}

absl::StatusOr<SchedulerFile> SchedulerFile::Over(absl::string_view json) const {
  if (json.empty()) return *this;
  ASSIGN_OR_RETURN(const Json laid_over, ParseConfigJson(json, "the preset"));
  const std::string own = ClassName(laid_over);
  Parsed parsed = *parsed_;
  if (!own.empty()) {
    parsed.class_name = own;
    // A spread of sigmas was chosen for the scheduler that goes.
    for (const char* spread :
         {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "use_lu_lambdas"}) {
      parsed.fields.erase(spread);
    }
  }
  parsed.fields.update(laid_over);
  return SchedulerFile(std::make_shared<const Parsed>(std::move(parsed)));
}

const std::string& SchedulerFile::class_name() const { return parsed_->class_name; }

absl::StatusOr<SchedulerConfig> SchedulerFile::With(const Overrides& overrides) const {
  ASSIGN_OR_RETURN(const Json laid_over, ReadOverrides(overrides));
  ASSIGN_OR_RETURN(const SchedulerChoice choice, ChooseScheduler(overrides.name, class_name()));
  const Scheduler& scheduler = *choice.row->scheduler;
  Json file = parsed_->fields;
  file.update(laid_over);
  // As from_config with an algorithm_type of its own: that of the file need not be one of ours.
  const bool names_algorithm = choice.row->algorithm_type && !choice.by_class;
  if (names_algorithm) file.erase("algorithm_type");
  const std::map<std::string, Json> typed = TypedFields(overrides);

  FieldReader reader(scheduler);
  reader.config().unknown_fields = UnknownFields(file);
  reader.config().align_your_steps = parsed_->align_your_steps;
  // See the header: DDIM, DDPM and PNDM over another scheduler's file.
  if (scheduler.class_name != class_name()) {
    reader.config().clip_sample = false;
    reader.config().skip_prk_steps = true;
  }
  reader.ReadFile(file, kFile);
  ApplyName(choice, reader.config());
  reader.ReadTyped(typed);
  reader.CheckNamed(choice, typed);
  reader.CheckTogether(typed);
  RETURN_IF_ERROR(reader.Finish());
  return std::move(reader.config());
}

}  // namespace latentd::schedulers
