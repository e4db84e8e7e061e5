#include "core/schedulers/config.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/schedulers/config_fields.h"
#include "core/schedulers/config_json.h"
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
absl::StatusOr<SchedulerRow> ChooseScheduler(absl::string_view override, absl::string_view own) {
  const std::optional<SchedulerRow> row = FindScheduler(override.empty() ? own : override);
  if (row && (!override.empty() || row->scheduler->class_name == own)) return *row;
  const std::string supported =
      absl::StrCat("supported are ", absl::StrJoin(SupportedSchedulers(), ", "));
  if (!override.empty()) {
    return InvalidFields(
        {{"scheduler", absl::StrCat("unknown scheduler ", Excerpt(override), "; ", supported)}});
  }
  return absl::InvalidArgumentError(absl::StrCat(kFile, ": unsupported _class_name ", Excerpt(own),
                                                 "; supported are ",
                                                 absl::StrJoin(SupportedSchedulerClasses(), ", ")));
}

// Reads the fields of one object over a configuration, and gathers what is wrong with them.
class FieldReader {
 public:
  explicit FieldReader(SchedulerRow row) : scheduler_(*row.scheduler) {
    config_.scheduler = row.scheduler;
    if (scheduler_.set_defaults != nullptr) scheduler_.set_defaults(config_);
  }

  SchedulerConfig& config() { return config_; }

  // Fields of a file: one that only other schedulers have is passed over.
  void ReadFile(const Json& fields, absl::string_view source) {
    for (const auto& [name, value] : fields.items()) {
      if (absl::StartsWith(name, "_")) continue;
      if (FindField(name) == nullptr && !IsForeignField(name)) {
        mistakes_.push_back(absl::StrCat(source, ": unknown field ", Excerpt(name)));
      } else if (scheduler_.HasField(name)) {
        const std::optional<std::string> mistake = FindField(name)->read(value, config_);
        if (mistake)
          mistakes_.push_back(
              absl::StrCat(source, ": ", name, " ", *mistake, ", not ", Excerpt(value.dump())));
      }
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

  // What is wrong only in combination. `typed` are the fields that a request asked for, whose fault
  // it then is.
  void CheckTogether(const std::map<std::string, Json>& typed) {
    if (scheduler_.find_mistake != nullptr) {
      if (const auto mistake = scheduler_.find_mistake(config_)) Add(*mistake, typed);
    }
    const int spreads = config_.use_karras_sigmas + config_.use_exponential_sigmas +
                        config_.use_beta_sigmas + config_.use_lu_lambdas;
    if (spreads > 1) {
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
  std::vector<std::string> mistakes_;  // of the files
  std::vector<FieldViolation> violations_;
};

}  // namespace

absl::StatusOr<SchedulerConfig> ParseSchedulerConfig(absl::string_view json,
                                                     const Overrides& overrides,
                                                     absl::string_view class_name) {
  ASSIGN_OR_RETURN(Json file, ParseConfigJson(json, kFile));
  Json laid_over = Json::object();
  if (!overrides.config.empty()) {
    ASSIGN_OR_RETURN(laid_over, ParseConfigJson(overrides.config, "the scheduler's overrides"));
  }
  const std::string own_class = class_name.empty() ? ClassName(file) : std::string(class_name);
  ASSIGN_OR_RETURN(const SchedulerRow row, ChooseScheduler(overrides.name, own_class));
  file.update(laid_over);
  const std::map<std::string, Json> typed = TypedFields(overrides);

  FieldReader reader(row);
  // See the header: DDIM over another scheduler's file.
  if (row.scheduler->class_name != own_class) reader.config().clip_sample = false;
  reader.ReadFile(file, kFile);
  if (row.algorithm_type && !overrides.name.empty())
    reader.config().algorithm_type = *row.algorithm_type;
  reader.ReadTyped(typed);
  reader.CheckTogether(typed);
  RETURN_IF_ERROR(reader.Finish());
  return std::move(reader.config());
}

}  // namespace latentd::schedulers
