// latent capabilities
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/commands/command_options.h"
#include "client/commands/commands.h"
#include "client/commands/interrupt.h"
#include "client/options/api_key.h"
#include "client/options/tls_options.h"
#include "client/output/json_output.h"
#include "client/rpc/latent_client.h"
#include "client/words/option_words.h"
#include "client/words/text.h"
#include "core/base/process/stop_signals.h"

namespace latentd::client {
namespace {

constexpr char kIntroduction[] =
    R"(latent capabilities says what a latentd serves and which values it takes.
)";

void Row(const std::string& name, const std::string& value) {
  std::cout << absl::StrFormat("%-12s%s\n", name, value);
}

std::string BucketsText(const v1::GetCapabilitiesResponse& capabilities) {
  const bool with_model = HasSeveralModels(capabilities.buckets());
  return absl::StrJoin(
      capabilities.buckets(), ", ", [with_model](std::string* out, const v1::Bucket& bucket) {
        absl::StrAppend(out, BucketText(bucket, with_model), bucket.ready() ? "" : " (not ready)");
      });
}

// "0.8", or with the text encoders' "0.8 (text encoders 0.5)".
std::string WeightsText(const v1::ModelLora& lora) {
  if (lora.unet_weight() == lora.text_encoder_weight()) return absl::StrCat(lora.unet_weight());
  return absl::StrCat(lora.unet_weight(), " (text encoders ", lora.text_encoder_weight(), ")");
}

void PrintLora(const v1::ModelLora& lora) {
  std::string line = absl::StrCat("LoRA ", lora.name(), ", weight ", WeightsText(lora));
  if (!lora.base_model().empty()) absl::StrAppend(&line, ", for ", lora.base_model());
  if (!lora.trigger_phrase().empty()) {
    absl::StrAppend(&line, "; prompts should have: ", lora.trigger_phrase());
  }
  Row("", line);
}

std::string KindWithSize(const v1::AdapterInfo& adapter) {
  if (adapter.kind() == v1::ADAPTER_KIND_LORA) return absl::StrCat("LoRA of rank ", adapter.rank());
  if (adapter.kind() == v1::ADAPTER_KIND_CONTROLNET) {
    if (adapter.control_modes().empty()) return "ControlNet";
    return absl::StrCat("ControlNet-Union of ", absl::StrJoin(adapter.control_modes(), ", "));
  }
  if (adapter.kind() == v1::ADAPTER_KIND_IP_ADAPTER) {
    return absl::StrCat("IP-Adapter, ", adapter.variant(), ", ", adapter.image_tokens(),
                        " tokens of an image, image_embeds of ",
                        absl::StrJoin(adapter.image_embeds_shape(), "x"));
  }
  return absl::StrCat("textual inversion of ", adapter.vectors(), " tokens");
}

// "film (LoRA of rank 16, for base); prompts should have: film style".
void PrintAdapter(const v1::AdapterInfo& adapter) {
  std::string line = absl::StrCat(adapter.name(), " (", KindWithSize(adapter), ", for ",
                                  absl::StrJoin(adapter.models(), ", "), ")");
  if (adapter.has_recommended_weight()) {
    absl::StrAppend(&line, "; weight ", adapter.recommended_weight());
  }
  if (!adapter.preset().empty()) absl::StrAppend(&line, "; preset ", adapter.preset());
  if (!adapter.base_model().empty()) absl::StrAppend(&line, "; made for ", adapter.base_model());
  const std::string words = adapter.trigger_phrase().empty()
                                ? absl::StrJoin(adapter.trigger_words(), ", ")
                                : adapter.trigger_phrase();
  if (!words.empty()) absl::StrAppend(&line, "; prompts should have: ", words);
  Row("adapter", line);
}

std::string EmbedsText(const v1::ModelInfo& model) {
  const std::string pooled =
      model.pooled_prompt_embeds_width() == 0
          ? ""
          : absl::StrCat(", pooled ones ", model.pooled_prompt_embeds_width());
  return absl::StrCat("embeddings have ", model.prompt_embeds_width(), " numbers a token", pooled);
}

// "full, high (guidance_stop auto), fast (guidance_stop auto, feature_cache_interval 3)".
std::string EffortsText(const v1::ModelInfo& model) {
  const auto append = [](std::string* out, const v1::EffortSettings& settings) {
    std::vector<std::string> parts;
    const bool stops = settings.guidance_stop() == v1::GUIDANCE_STOP_AUTO;
    if (stops) parts.emplace_back("guidance_stop auto");
    const int interval = settings.feature_cache_interval();
    if (interval > 1) parts.push_back(absl::StrCat("feature_cache_interval ", interval));
    const auto* value = v1::Effort_descriptor()->FindValueByNumber(settings.effort());
    absl::StrAppend(out, value == nullptr ? "another" : ChoiceOf(*value));
    if (!parts.empty()) absl::StrAppend(out, " (", absl::StrJoin(parts, ", "), ")");
  };
  return absl::StrCat("efforts ", absl::StrJoin(model.efforts(), ", ", append));
}

void Print(const v1::GetCapabilitiesResponse& c, const std::string& server) {
  Row("server", absl::StrCat(server, ", latentd ", c.version(), ", backend ", c.backend()));
  for (const v1::ModelInfo& model : c.models()) {
    Row(model.component(),
        absl::StrCat(model.name(), " (", model.class_name(), ", ", model.family(), "); by default ",
                     model.default_steps(), " steps, guidance ", model.default_guidance_scale(),
                     ", strength ", model.default_strength(),
                     model.preset().empty() ? "" : absl::StrCat(" (preset ", model.preset(), ")"),
                     model.inpaints() ? "; an inpainting model: needs --image and --mask" : ""));
    Row("", EmbedsText(model));
    if (model.efforts_size() > 0) Row("", EffortsText(model));  // older servers have none
    if (!model.prediction_type().empty()) {
      Row("", absl::StrCat("predicts ", model.prediction_type(), ", by ",
                           model.prediction_decided_by()));
    }
    for (const v1::ModelLora& lora : model.loras()) PrintLora(lora);
  }
  for (const v1::AdapterInfo& adapter : c.adapters()) PrintAdapter(adapter);
  Row("refine", c.can_refine() ? "yes: --refine" : "no");
  Row("size", absl::StrCat(SizeText(c.default_size()), " by default; ", c.min_side(), " to ",
                           c.max_side(), " a side, multiples of ", c.side_multiple(), ", at most ",
                           c.max_pixels(), " pixels"));
  Row("buckets", BucketsText(c));
  Row("steps", absl::StrCat(c.min_steps(), " to ", c.max_steps()));
  Row("guidance", absl::StrCat("at most ", c.max_guidance_scale()));
  const int interval = c.max_feature_cache_interval();
  Row("feature cache", interval > 1 ? absl::StrCat("an interval of at most ", interval) : "no");
  Row("pictures", absl::StrCat("at most ", c.max_images_per_prompt(), " a request; ",
                               c.queue_capacity(), " may wait"));
  Row("priority", absl::StrCat(c.min_priority(), " to ", c.max_priority()));
  const std::string by_default = c.default_scheduler().empty()
                                     ? "none by default, so that every request has to name one"
                                     : absl::StrCat(c.default_scheduler(), " by default");
  Row("schedulers", absl::StrCat(by_default, "; ", absl::StrJoin(c.schedulers(), ", ")));
  for (const v1::NoiseScheduler& scheduler : c.noise_schedulers()) {
    if (scheduler.grids().empty()) continue;
    Row("grids", absl::StrCat("behind a scheduler's name, as in ", scheduler.name(), "_",
                              scheduler.grids(0), ": ", absl::StrJoin(scheduler.grids(), ", ")));
    break;
  }
}

void PrintVideos(const v1::GetVideoCapabilitiesResponse& c) {
  for (const v1::VideoModelInfo& model : c.models()) {
    const int chunk = model.default_decode_chunk_size();
    Row(model.name(),
        absl::StrCat(model.checkpoint(), " (", model.class_name(), ", ", model.family(),
                     "); draws videos: latent animate; by default ", SizeText(model.default_size()),
                     ", ", model.default_steps(), " steps, ",
                     chunk == 0 ? "all frames" : absl::StrCat(chunk, " frames"),
                     " decoded together"));
    std::vector<std::string> buckets;
    for (const v1::VideoBucket& bucket : c.buckets()) {
      if (bucket.model() != model.name()) continue;
      buckets.push_back(
          absl::StrCat(SizeText(bucket.size()), bucket.ready() ? "" : " (not ready)"));
    }
    Row("", absl::StrCat("buckets ", absl::StrJoin(buckets, ", ")));
  }
  std::vector<std::string> formats;
  for (const int format : c.video_formats()) {
    const auto* value = v1::VideoFormat_descriptor()->FindValueByNumber(format);
    if (value != nullptr) formats.push_back(ChoiceOf(*value));
  }
  if (c.models_size() == 0 || formats.empty()) return;
  Row("", absl::StrCat("files ", absl::StrJoin(formats, ", "), "; or frames"));
}

std::vector<OptionGroup> AllOptions(Connection& connection, bool& json) {
  return {{"Options",
           {ServerOption(connection), ApiKeyOption(connection), JsonOption(json),
            HelpOption(connection)}},
          TlsOptions(connection)};
}

}  // namespace

CommandShape CapabilitiesShape() {
  Connection connection;
  bool json = false;
  return {"capabilities", "what the server has and which values it takes",
          WithoutTargets(AllOptions(connection, json))};
}

ExitCode RunCapabilities(const std::vector<std::string>& arguments) {
  Connection connection;
  bool json = false;
  const std::vector<OptionGroup> groups = AllOptions(connection, json);
  const auto words = ParseCommand(groups, arguments, connection);
  if (connection.help) {
    std::cout << kIntroduction << DescribeOptions(groups);
    return ExitCode::kOk;
  }
  if (!words.ok()) return UsageError(words.status(), "latent capabilities");
  if (!words->empty()) {
    return UsageError(absl::InvalidArgumentError("takes options only"), "latent capabilities");
  }
  BlockStopSignals();
  Client client(connection.server, {}, connection.tls, connection.api_key);
  Interrupt interrupt([&client] { client.Cancel(); });
  v1::GetCapabilitiesResponse capabilities;
  const grpc::Status status = client.GetCapabilities(capabilities);
  if (interrupt.happened()) return ExitCode::kInterrupted;
  if (!status.ok()) return CallFailed(status, connection, /*connected=*/false);
  v1::GetVideoCapabilitiesResponse videos;
  const bool knows_videos = client.GetVideoCapabilities(videos).ok();  // older servers do not
  if (json && knows_videos) return PrintJsonWith(capabilities, "videos", videos);
  if (json) return PrintJson(capabilities);
  Print(capabilities, connection.server);
  if (knows_videos) PrintVideos(videos);
  return ExitCode::kOk;
}

}  // namespace latentd::client
