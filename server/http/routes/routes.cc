#include "server/http/routes/routes.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/error_details.h"
#include "core/base/files/unique_json.h"
#include "core/base/text/utf8.h"
#include "core/engine/api/serving.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/http_status.h"
#include "server/http/exchange/target.h"
#include "server/http/hugging_face/hugging_face_dialect.h"
#include "server/http/openai/openai_answer.h"
#include "server/http/openai/openai_dialect.h"
#include "server/http/page/page.h"
#include "server/http/sdapi/sdapi_dialect.h"
#include "server/http/sdapi/sdapi_lists.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;
using Routes = std::vector<Route>;

// Empty until the checkpoints are loaded.
engine::Capabilities CapabilitiesOf(const engine::Engine& engine) {
  return engine::CheckServing(engine.status()).ok() ? engine.capabilities()
                                                    : engine::Capabilities();
}

std::vector<ServedModel> ServedBy(const engine::Engine& engine) {
  return ModelsOf(CapabilitiesOf(engine));
}

Offer OfferOf(const engine::Engine& engine, const latent::v1::GenerateRequest& defaults) {
  const engine::Capabilities capabilities = CapabilitiesOf(engine);
  Offer offer = {.models = ModelsOf(capabilities), .defaults = defaults};
  for (const pipeline::AdapterFacts& adapter : capabilities.adapters) {
    if (adapter.kind == pipeline::AdapterKind::kLora) offer.loras.push_back(adapter.name);
  }
  return offer;
}

Answer Say(const Json& json) { return {.body = AnswerBody(ToText(json))}; }

Route Get(std::string path, std::function<Answer(const Request&, const Caller&)> answer) {
  return {.method = "GET", .path = std::move(path), .answer = std::move(answer)};
}

Route Draw(std::string path, std::function<std::unique_ptr<Dialect>()> dialect) {
  return {.method = "POST",
          .path = std::move(path),
          .has_picture = true,
          .dialect = std::move(dialect)};
}

// Reasons quote drivers and name files.
Answer Probe(const std::string& why_not, const Caller& caller) {
  const std::string said = why_not.empty() ? "ok" : caller.is_operator ? why_not : "not ready";
  return {.code = why_not.empty() ? 200 : 503,
          .content_type = "text/plain; charset=utf-8",
          .body = AnswerBody(ToUtf8(absl::StrCat(said, "\n")))};
}

// Names the API of all routes from that on.
void NameApi(const char* api, size_t first, Routes& routes) {
  for (size_t i = first; i < routes.size(); ++i) routes[i].api = api;
}

void AddProbes(const process::Health& health, Routes& routes) {
  for (const char* path : {"/healthz", "/v2/health/live"}) {
    routes.push_back(Get(path, [&](const auto&, const Caller& caller) {
      return Probe(health.WhyNotAlive(), caller);
    }));
  }
  for (const char* path : {"/readyz", "/v2/health/ready"}) {
    routes.push_back(Get(path, [&](const auto&, const Caller& caller) {
      return Probe(health.WhyNotReady(), caller);
    }));
  }
  for (Route& route : routes) route.open_to_all = true;
}

// Runtimes take the list for a sign of readiness.
Answer ListModels(const engine::Engine& engine, const process::Health& health,
                  const Caller& caller) {
  const std::string why_not = health.WhyNotReady();
  if (why_not.empty()) return Say(ModelList(ServedBy(engine)));
  return OpenAiRefusal(WithRetryDelay(
      WithReason(absl::UnavailableError(caller.is_operator ? absl::StrCat("not ready: ", why_not)
                                                           : "not ready"),
                 "LOADING"),
      absl::Seconds(2)));
}

Answer ShowModel(const engine::Engine& engine, absl::string_view name) {
  const auto model = FindModel(ServedBy(engine), name);
  return model.ok() ? Say(ModelEntry(*model)) : OpenAiRefusal(model.status());
}

void AddOpenAi(const std::string& prefix, engine::Engine& engine, const process::Health& health,
               const latent::v1::GenerateRequest& defaults, Routes& routes) {
  const auto images = [&](const char* name, ImagesRoute route) {
    routes.push_back(Draw(absl::StrCat(prefix, "/images/", name), [&engine, route, defaults] {
      return std::make_unique<OpenAiDialect>(route, OfferOf(engine, defaults));
    }));
  };
  images("generations", ImagesRoute::kGenerations);
  images("edits", ImagesRoute::kEdits);
  images("variations", ImagesRoute::kVariations);
  const std::string models = absl::StrCat(prefix, "/models");
  routes.push_back(Get(models, [&](const auto&, const Caller& caller) {
    return ListModels(engine, health, caller);
  }));
  routes.push_back(Get(models + "/*", [&engine, models](const Request& request, const auto&) {
    const absl::string_view path = absl::StripSuffix(request.path, "/");
    return ShowModel(engine, DecodePercent(path.substr(models.size() + 1)));
  }));
}

// Videos, which are jobs.
void AddVideos(const std::string& prefix, const VideoPaths& videos, Routes& routes) {
  const std::string all = absl::StrCat(prefix, "/videos");
  // The part of the path between `all` and `end`.
  const auto id_of = [before = all.size() + 1](const Request& request, absl::string_view end = "") {
    const absl::string_view path = absl::StripSuffix(request.path, "/");
    return absl::StripSuffix(path.substr(before), end);
  };
  routes.push_back({.method = "POST",
                    .path = all,
                    .has_picture = true,
                    .submit = [videos](Request request, generation::Client client) {
                      return videos.Create(std::move(request), std::move(client));
                    }});
  routes.push_back(Get(all, [videos](const Request& request, const Caller& caller) {
    return videos.List(caller.name, request.query);
  }));
  routes.push_back(
      Get(all + "/*/content", [videos, id_of](const Request& request, const Caller& caller) {
        return videos.Fetch(caller.name, id_of(request, "/content"), request.query);
      }));
  routes.push_back(Get(all + "/*", [videos, id_of](const Request& request, const Caller& caller) {
    return videos.Show(caller.name, id_of(request));
  }));
  routes.push_back({.method = "DELETE",
                    .path = all + "/*",
                    .answer = [videos, id_of](const Request& request, const Caller& caller) {
                      return videos.Delete(caller.name, id_of(request));
                    }});
}

Route Post(std::string path, std::function<Answer(const Request&, const Caller&)> answer) {
  return {.method = "POST", .path = std::move(path), .answer = std::move(answer)};
}

// Options that would draw something else for later requests: they would hold for all callers.
std::string ChangedOption(const nlohmann::json& options, const std::vector<ServedModel>& models,
                          const ServedModel& named) {
  if (!models.empty() && named.id != models.front().id) return "sd_model_checkpoint";
  const auto layers = options.find("CLIP_stop_at_last_layers");
  return layers == options.end() || *layers == 1 ? "" : "CLIP_stop_at_last_layers";
}

// A checkpoint that is not served is not taken, and nothing is changed; what draws the same is
// passed over.
Answer SetOptions(const engine::Engine& engine, const Request& request) {
  const auto options = ParseUniqueJsonObject(request.body, "the body", request.body.size());
  if (!options.ok()) return SdapiRefusal(WithReason(options.status(), "MALFORMED"));
  const std::vector<ServedModel> models = ServedBy(engine);
  const auto named = options->find("sd_model_checkpoint");
  const bool names_one = named != options->end() && named->is_string();
  const auto model = FindModel(models, names_one ? named->get<std::string>() : "");
  if (!model.ok()) return names_one ? SdapiRefusal(model.status()) : Say(nullptr);
  const std::string changed = ChangedOption(*options, models, *model);
  if (changed.empty()) return Say(nullptr);
  return SdapiRefusal(WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          changed, " is not kept for later requests: name it in the override_settings of each")),
      kUnsupportedValue));
}

std::string AtSdapi(const char* name) { return absl::StrCat("/sdapi/v1/", name); }

void AddSdapiLists(const engine::Engine& engine, Routes& routes) {
  const auto add = [&](const char* name, auto list) {
    routes.push_back(Get(AtSdapi(name), [&engine, list](const auto&, const auto&) {
      return Say(list(CapabilitiesOf(engine)));
    }));
  };
  add("sd-models", [](const auto& capabilities) { return SdapiModels(ModelsOf(capabilities)); });
  add("samplers", SdapiSamplers);
  add("schedulers", SdapiSchedulers);
  add("loras", SdapiLoras);
  add("embeddings", SdapiEmbeddings);
  for (const char* name :
       {"sd-vae", "sd-modules", "prompt-styles", "hypernetworks", "face-restorers", "upscalers",
        "latent-upscale-modes", "scripts", "cmd-flags"}) {
    add(name, [name](const auto&) { return SdapiNothing(name); });
  }
}

void AddSdapi(engine::Engine& engine, const RunningCalls& running, const RouteOptions& options,
              Routes& routes) {
  const auto at = AtSdapi;
  for (const bool from_image : {false, true}) {
    routes.push_back(Draw(at(from_image ? "img2img" : "txt2img"), [&engine, from_image, options] {
      return std::make_unique<SdapiDialect>(from_image, OfferOf(engine, options.defaults),
                                            options.version);
    }));
  }
  routes.push_back(Get(at("options"), [&](const auto&, const auto&) {
    return Say(SdapiOptions(ServedBy(engine)));
  }));
  routes.push_back(Post(at("options"), [&](const Request& request, const auto&) {
    return SetOptions(engine, request);
  }));
  routes.push_back(Get(at("progress"), [&](const auto&, const Caller& caller) {
    return Say(SdapiProgress(running.Of(caller.name)));
  }));
  for (const char* name : {"interrupt", "skip"}) {
    routes.push_back(Post(at(name), [&](const auto&, const Caller& caller) {
      for (const auto& call : running.Of(caller.name)) call->Interrupt();
      return Say(Json::object());
    }));
  }
  for (const char* name : {"refresh-checkpoints", "reload-checkpoint", "unload-checkpoint",
                           "refresh-loras", "refresh-embeddings", "refresh-vae"}) {
    routes.push_back(Post(at(name), [](const auto&, const auto&) { return Say(Json::object()); }));
  }
  AddSdapiLists(engine, routes);
}

void AddPage(Routes& routes) {
  for (const char* path : {"/", "/page/*"}) {
    routes.push_back(Get(path, [](const Request& request, const auto&) {
      const PageFile* file = FindPageFile(request.path);
      if (file != nullptr) return ShowPageFile(*file, request);
      return OpenAiRefusal(
          WithReason(absl::NotFoundError("the page has no file of this name"), kNoSuchRoute));
    }));
    routes.back().open_to_all = true;
  }
}

void AddOwn(const std::shared_ptr<const OwnAnswers>& own, Routes& routes) {
  const auto get = [&](const char* name, auto answer) {
    routes.push_back(Get(absl::StrCat("/latent/v1/", name), std::move(answer)));
  };
  get("status",
      [own](const auto&, const Caller& caller) { return own->Status(caller.is_operator); });
  get("capabilities",
      [own](const auto&, const Caller& caller) { return own->Capabilities(caller.name); });
  const auto get_for_operators = [&](const char* name, auto answer) {
    get(name, std::move(answer));
    routes.back().for_operators = true;
    routes.back().takes_time = true;
  };
  get_for_operators("memory", [own](const auto&, const auto&) { return own->Memory(); });
  get_for_operators("graphs", [own](const auto&, const auto&) { return own->Graphs(); });
}

}  // namespace

Routes MakeRoutes(engine::Engine& engine, const process::Health& health,
                  const RunningCalls& running, const VideoPaths& videos,
                  const RouteOptions& options) {
  Routes routes;
  const auto add = [&](const char* api, const auto& add_to) {
    const size_t first = routes.size();
    add_to();
    NameApi(api, first, routes);
  };
  add("probes", [&] { AddProbes(health, routes); });
  add("openai", [&] {
    // Clients leave the first out, or have the prefix of another server.
    for (const char* prefix : {"/v1", "", "/v3"}) {
      AddOpenAi(prefix, engine, health, options.defaults, routes);
      AddVideos(prefix, videos, routes);
    }
  });
  add("sdapi", [&] { AddSdapi(engine, running, options, routes); });
  add("hf", [&] {
    routes.push_back(Draw("/hf", [&engine, defaults = options.defaults] {
      return std::make_unique<HuggingFaceDialect>(OfferOf(engine, defaults));
    }));
  });
  add("latentd", [&] {
    AddOwn(std::make_shared<const OwnAnswers>(
               engine, OwnAnswers::Options{.version = options.version,
                                           .client_memory = options.client_memory}),
           routes);
  });
  if (options.has_page) add("page", [&] { AddPage(routes); });
  return routes;
}

}  // namespace latentd::server::http
