#include "server/http/sdapi/sdapi_lists.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;

// The web UI's name is the one with blanks or capitals, if there is such a one.
std::string TitleOf(const schedulers::SchedulerNames& names) {
  for (const std::string& alias : names.aliases) {
    const bool of_web_ui = !absl::EndsWith(alias, "Scheduler") && alias != names.name &&
                           std::any_of(alias.begin(), alias.end(),
                                       [](char c) { return c == ' ' || (c >= 'A' && c <= 'Z'); });
    if (of_web_ui) return alias;
  }
  return names.name;
}

Json SamplerEntry(const std::string& name, const std::vector<std::string>& aliases) {
  return {{"name", name}, {"aliases", aliases}, {"options", Json::object()}};
}

// The last part of an adapter's name: a word of prompts, and what the web UI calls a file.
std::string LastPartOf(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// Texts of its file by the names that trainers give them, as far as they are known.
Json MetadataOf(const pipeline::AdapterFacts& lora) {
  Json metadata = Json::object();
  if (!lora.trigger_phrase.empty()) metadata["modelspec.trigger_phrase"] = lora.trigger_phrase;
  if (lora.rank > 0) metadata["ss_network_dim"] = absl::StrCat(lora.rank);
  if (lora.rank > 0) metadata["ss_network_alpha"] = absl::StrCat(lora.alpha);
  return metadata;
}

// Numbers of a vector for that model; 0: it is not known.
int WidthOf(const engine::Capabilities& capabilities, const pipeline::AdapterFacts& word) {
  for (const engine::ModelInfo& model : capabilities.models) {
    if (absl::c_linear_search(word.models, model.component)) return model.prompt_embeds_width;
  }
  return 0;
}

Json NoneEntry() {
  return Json::array({{{"name", "None"},
                       {"model_name", nullptr},
                       {"model_path", nullptr},
                       {"model_url", nullptr},
                       {"scale", 4}}});
}

}  // namespace

Json SdapiOptions(const std::vector<ServedModel>& models) {
  return {{"sd_model_checkpoint", models.empty() ? "" : models.front().id},
          {"samples_format", "png"},
          {"CLIP_stop_at_last_layers", 1}};
}

Json SdapiModels(const std::vector<ServedModel>& models) {
  Json list = Json::array();
  for (const ServedModel& model : models) {
    list.push_back({{"title", model.id},
                    {"model_name", model.id},
                    {"hash", nullptr},
                    {"sha256", nullptr},
                    {"filename", model.id},
                    {"config", nullptr}});
  }
  return list;
}

Json SdapiSamplers(const engine::Capabilities& capabilities) {
  Json list = Json::array();
  for (const schedulers::SchedulerNames& names : capabilities.schedulers) {
    std::vector<std::string> aliases = names.aliases;
    aliases.push_back(names.name);
    const std::string title = TitleOf(names);
    std::erase(aliases, title);
    list.push_back(SamplerEntry(title, aliases));
    // Clients that know an older web UI ask for both in one name.
    for (const std::string& grid : names.grids) {
      if (grid == "karras") list.push_back(SamplerEntry(title + " Karras", {}));
    }
  }
  return list;
}

Json SdapiSchedulers(const engine::Capabilities& capabilities) {
  std::set<std::string> grids;
  for (const schedulers::SchedulerNames& names : capabilities.schedulers) {
    grids.insert(names.grids.begin(), names.grids.end());
  }
  Json list = Json::array();
  const auto add = [&](const std::string& name, const std::string& label) {
    list.push_back({{"name", name},
                    {"label", label},
                    {"aliases", nullptr},
                    {"default_rho", -1},
                    {"need_inner_model", false}});
  };
  add("automatic", "Automatic");
  for (const std::string& grid : grids) add(grid, grid);
  return list;
}

Json SdapiProgress(const std::vector<std::shared_ptr<HttpCall>>& calls) {
  const HttpCall::Progress at = calls.empty() ? HttpCall::Progress() : calls.front()->progress();
  const double done = at.total_steps > 0 ? static_cast<double>(at.step) / at.total_steps : 0;
  return {{"progress", done},
          {"eta_relative", 0},
          {"state",
           {{"skipped", false},
            {"interrupted", false},
            {"job", calls.empty() ? "" : "txt2img"},
            {"job_count", calls.size()},
            {"job_timestamp", "0"},
            {"job_no", at.image},
            {"sampling_step", at.step},
            {"sampling_steps", at.total_steps}}},
          {"current_image", nullptr},
          {"textinfo", nullptr}};
}

Json SdapiLoras(const engine::Capabilities& capabilities) {
  Json list = Json::array();
  for (const pipeline::AdapterFacts& adapter : capabilities.adapters) {
    if (adapter.kind != pipeline::AdapterKind::kLora) continue;
    list.push_back({{"name", adapter.name},
                    {"alias", LastPartOf(adapter.name)},
                    {"path", adapter.name},
                    {"metadata", MetadataOf(adapter)}});
  }
  return list;
}

Json SdapiEmbeddings(const engine::Capabilities& capabilities) {
  Json loaded = Json::object(), skipped = Json::object();
  const std::string model =
      capabilities.models.empty() ? "" : capabilities.models.front().component;
  for (const pipeline::AdapterFacts& adapter : capabilities.adapters) {
    if (adapter.kind != pipeline::AdapterKind::kTextualInversion) continue;
    Json& list = absl::c_linear_search(adapter.models, model) ? loaded : skipped;
    list[LastPartOf(adapter.name)] = {{"step", nullptr},
                                      {"sd_checkpoint", nullptr},
                                      {"sd_checkpoint_name", nullptr},
                                      {"shape", WidthOf(capabilities, adapter)},
                                      {"vectors", adapter.vectors}};
  }
  return {{"loaded", std::move(loaded)}, {"skipped", std::move(skipped)}};
}

Json SdapiNothing(const std::string& name) {
  static const auto& empty_lists = *new std::set<std::string>{
      "sd-vae", "sd-modules", "prompt-styles", "hypernetworks", "face-restorers"};
  if (empty_lists.count(name) > 0) return Json::array();
  if (name == "upscalers") return NoneEntry();
  if (name == "latent-upscale-modes") return Json::array({{{"name", "None"}}});
  if (name == "scripts") return {{"txt2img", Json::array()}, {"img2img", Json::array()}};
  if (name == "cmd-flags") return Json::object();
  return nullptr;
}

}  // namespace latentd::server::http
