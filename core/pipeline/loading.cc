#include "core/pipeline/loading.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/memory_limit.h"
#include "core/families/families.h"
#include "core/families/family/video_family.h"
#include "core/pipeline/graphs/precision.h"
#include "core/pipeline/spec/presets.h"

namespace latentd::pipeline {
namespace {

using weights::Checkpoint;

// Part of the memory beside weights that parts of a video's decoder may take for what they leave
// for each other: decoding takes seven times as much, and two videos of a lane may both be at it.
constexpr int64_t kFeaturesPart = 12;

// A checkpoint of which something is loaded.
struct Source {
  const ModelRow& model;
  const families::Family& family;
  Checkpoint checkpoint;
};

// The folders that are loaded.
std::vector<std::string> FoldersOf(const Source& source, const LoadOptions& options) {
  if (IsOff(options.components, FlagNameOf(kUnetName, source.model.name))) return {};
  std::vector<std::string> folders;
  for (const char* folder : {"text_encoder", "text_encoder_2", "unet", "vae"}) {
    if (source.checkpoint.Has(folder)) folders.push_back(folder);
  }
  // Other families' checkpoints may name one, which diffusers has for IP-Adapters.
  if (source.family.videos != nullptr && source.checkpoint.Has(families::kImageEncoder)) {
    folders.emplace_back(families::kImageEncoder);
  }
  return folders;
}

// Size of a weight as backends hold it. The VAE counts as f32 whatever it computes in: if that is
// less, its fallback computes in f32.
int64_t BytesPerElement(const Source& source, const std::string& folder,
                        const LoadOptions& options) {
  if (folder == "vae") return device::SizeOf(device::DType::kF32);
  const device::DType dtype = DTypeOf(
      options.precision, folder == "unet" ? FlagNameOf(kUnetName, source.model.name) : folder);
  // Some of fp8's weights have 8 bits.
  if (dtype == device::DType::kF8E4M3) return device::SizeOf(device::DType::kBF16);
  const bool widened = dtype == device::DType::kF16 && options.holds_fp16_in_fp32;
  return device::SizeOf(widened ? device::DType::kF32 : dtype);
}

absl::Status GiveUp(const LoadOptions& options) {
  const bool stopped = options.give_up != nullptr && *options.give_up;
  return stopped ? absl::CancelledError("stopped while loading") : absl::OkStatus();
}

using SourcePointers = std::vector<const Source*>;

absl::StatusOr<int64_t> BytesOf(const SourcePointers& sources, const LoadOptions& options) {
  int64_t bytes = 0;
  for (const Source* one : sources) {
    const Source& source = *one;
    for (const std::string& folder : FoldersOf(source, options)) {
      ASSIGN_OR_RETURN(const weights::WeightSize size, source.checkpoint.SizeOf(folder));
      bytes += size.elements * BytesPerElement(source, folder, options);
    }
  }
  return bytes;
}

// False for a dtype that no network reads.
bool HasContent(const weights::Source& weight) {
  return absl::c_all_of(weight.from, [](const auto& tensor) { return tensor.digest != nullptr; });
}

// Names what LoRAs make of a component's weights: all of them count as others, though a LoRA may
// leave some. With the weight 0 none counts, though a magnitude of PEFT's DoRA applies even so.
std::string LorasOf(const Source& source, const std::string& folder) {
  std::string names;
  for (const LoraFile& lora : source.model.parts.loras) {
    const double weight = folder == "unet" ? lora.unet_weight : lora.text_encoder_weight;
    if (folder != "vae" && weight != 0) absl::StrAppend(&names, "\n", lora.path, ":", weight);
  }
  return names;
}

// Reads every tensor, which takes seconds for gigabytes: only asked where the sum above does not
// fit.
absl::StatusOr<int64_t> BytesOfDistinctTensors(const SourcePointers& sources,
                                               const LoadOptions& options) {
  int64_t bytes = 0;
  absl::flat_hash_set<Digest> seen;
  for (const Source* one : sources) {
    const Source& source = *one;
    for (const std::string& folder : FoldersOf(source, options)) {
      RETURN_IF_ERROR(GiveUp(options));
      ASSIGN_OR_RETURN(const weights::SourceMap weights, source.checkpoint.LoadWeights(folder));
      const std::string loras = LorasOf(source, folder);
      for (const auto& [name, weight] : weights) {
        if (!HasContent(weight)) continue;
        if (!seen.insert(DigestOf(absl::StrCat(weight.Content(), loras))).second) continue;
        bytes += weight.shape().elements() * BytesPerElement(source, folder, options);
      }
    }
  }
  return bytes;
}

absl::Status CheckMemoryOf(const SourcePointers& sources, const LoadOptions& options,
                           const AvailableMemory& available) {
  ASSIGN_OR_RETURN(int64_t needed, BytesOf(sources, options));
  if (needed <= available.bytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(needed, BytesOfDistinctTensors(sources, options));
  if (needed <= available.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the weights need ", needed,
                                                   " bytes of memory and ", available.bytes,
                                                   " are available (", available.source, ")"));
}

absl::Status CheckMemory(const std::vector<Source>& sources, const LoadOptions& options,
                         const device::Device& device) {
  ASSIGN_OR_RETURN(AvailableMemory available, device.Available());
  if (options.memory_bytes > 0 && options.memory_bytes < available.bytes) {
    available = {options.memory_bytes, "the configured memory budget"};
  }
  SourcePointers at_start, pinned, on_demand;
  for (const Source& source : sources) {
    (source.model.is_on_demand() ? on_demand : at_start).push_back(&source);
    if (source.model.is_pinned()) pinned.push_back(&source);
  }
  RETURN_IF_ERROR(CheckMemoryOf(at_start, options, available));
  if (!options.devices.empty()) return absl::OkStatus();  // Place has looked at those on demand
  for (const Source* source : on_demand) {
    SourcePointers beside = pinned;
    beside.push_back(source);
    const absl::Status fits = CheckMemoryOf(beside, options, available);
    if (fits.ok()) continue;
    return absl::Status(fits.code(), absl::StrCat("--", source->model.flag,
                                                  ": beside what is "
                                                  "pinned ",
                                                  fits.message()));
  }
  return absl::OkStatus();
}

// A model with those that it hands over to, as they are placed.
struct Led {
  const Source* leader;
  int64_t bytes = 0;            // sum of weights
  std::vector<size_t> devices;  // have it from the start on
};

// Finds where models are that are not loaded on demand anyway.
absl::StatusOr<std::vector<Led>> FindPlaces(const std::vector<Source>& sources,
                                            const LoadOptions& options) {
  std::vector<Led> all;
  for (const Source& leader : sources) {
    if (leader.model.leader != leader.model.id) continue;
    SourcePointers led;
    for (const Source& source : sources) {
      if (source.model.leader == leader.model.id) led.push_back(&source);
    }
    ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(led, options));
    all.push_back({&leader, bytes});
  }
  std::vector<Led*> placed;
  std::vector<PlacedModel> needs;
  for (Led& led : all) {
    if (led.leader->model.is_on_demand()) continue;
    placed.push_back(&led);
    needs.push_back({led.bytes, led.leader->model.is_pinned()});
  }
  std::vector<std::vector<size_t>> places = PlaceModels(needs, options.devices);
  for (size_t i = 0; i < placed.size(); ++i) placed[i]->devices = std::move(places[i]);
  return all;
}

void TellPlace(const Led& led, const LoadOptions& options) {
  const ModelRow& model = led.leader->model;
  if (model.is_on_demand()) return;
  const std::string what =
      absl::StrCat("model ", model.name, ", with ", led.bytes, " bytes of weights, ");
  if (led.devices.empty()) {
    if (!options.warn) return;
    options.warn(absl::StrCat("--placement=budget: ", what,
                              "has room on no device beside the "
                              "others: it is loaded on demand"));
    return;
  }
  if (!options.note) return;
  options.note(
      absl::StrCat(what, "is on ", absl::StrJoin(led.devices, ", ", [&](auto* text, size_t device) {
                     absl::StrAppend(text, options.devices[device].name);
                   })));
}

// Bytes that each device has beside what is pinned there.
std::vector<int64_t> RoomBesidePinned(const std::vector<Led>& all, const LoadOptions& options) {
  std::vector<int64_t> rooms;
  for (const DeviceRoom& device : options.devices) rooms.push_back(device.bytes);
  for (const Led& led : all) {
    if (!led.leader->model.is_pinned()) continue;
    for (const size_t device : led.devices) rooms[device] -= led.bytes;
  }
  return rooms;
}

absl::Status CheckHasRoom(const Led& led, absl::Span<const int64_t> rooms) {
  const int64_t most = *absl::c_max_element(rooms);
  if (!led.devices.empty() || led.bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("--", led.leader->model.flag, ": the weights need ", led.bytes,
                   " bytes of memory, and beside what is pinned no device has more than ", most));
}

// Bytes that the device may hold of anything: the same at each start, where it has its own memory.
absl::StatusOr<int64_t> MemoryOf(const LoadOptions& options, const device::Device& device) {
  int64_t bytes = device.Memory().total;
  if (bytes == 0) {
    ASSIGN_OR_RETURN(const AvailableMemory available, device.Available());
    bytes = available.bytes;
  }
  return options.memory_bytes > 0 ? std::min(options.memory_bytes, bytes) : bytes;
}

// Memory beside the weights that are there from the start, of the device that has least.
absl::StatusOr<int64_t> LeastBesideWeights(const std::vector<Source>& sources,
                                           const LoadOptions& options,
                                           const device::Device& device) {
  if (options.devices.empty()) {
    SourcePointers at_start;
    for (const Source& source : sources) {
      if (!source.model.is_on_demand()) at_start.push_back(&source);
    }
    ASSIGN_OR_RETURN(const int64_t memory, MemoryOf(options, device));
    ASSIGN_OR_RETURN(const int64_t weights, BytesOf(at_start, options));
    return memory - weights;
  }
  std::vector<int64_t> rooms;
  for (const DeviceRoom& room : options.devices) rooms.push_back(room.bytes);
  ASSIGN_OR_RETURN(const std::vector<Led> all, FindPlaces(sources, options));
  for (const Led& led : all) {
    for (const size_t place : led.devices) rooms[place] -= led.bytes;
  }
  return *absl::c_min_element(rooms);
}

// Says of each model of the table whether this device has it, and whether it could. An error names
// one that no device could have.
absl::Status Place(const std::vector<Source>& sources, const LoadOptions& options,
                   ModelTable& table) {
  if (options.devices.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Led> all, FindPlaces(sources, options));
  const std::vector<int64_t> rooms = RoomBesidePinned(all, options);
  for (const Led& led : all) {
    RETURN_IF_ERROR(CheckHasRoom(led, rooms));
    TellPlace(led, options);
    for (const ModelRow& row : table.rows()) {
      if (row.leader != led.leader->model.id) continue;
      ModelRow& placed = table[row.id];
      if (led.devices.empty()) placed.residency = Residency::kOnDemand;
      placed.is_placed = led.devices.empty() || absl::c_linear_search(led.devices, options.device);
      placed.has_room = !placed.is_on_demand() || led.bytes <= rooms[options.device];
    }
  }
  return absl::OkStatus();
}

// Checks that each model goes on from the latents of one whose family hands over to its own.
absl::Status CheckHandingOver(const std::vector<Source>& sources) {
  const Source& base = sources.front();
  for (const Source& source : sources) {
    if (!source.model.is_refiner || base.family.hands_over_to == &source.family) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", source.model.flag, "=", source.checkpoint.path(), " is of ",
                     source.family.title, ", and --", base.model.flag, "=", base.checkpoint.path(),
                     " of ", base.family.title, ", which has no such refiners"));
  }
  return absl::OkStatus();
}

// Sets the preset that the options name; where they name none, tells of one that the name of the
// UNet's place speaks of.
absl::Status SetPreset(const LoadOptions& options, ModelRow& row) {
  ASSIGN_OR_RETURN(row.preset, FindPreset(row.preset_name, row.family));
  if (!row.preset_name.empty() || !options.warn) return absl::OkStatus();
  const auto unet = row.parts.components.find("unet");
  const std::string& path = unet == row.parts.components.end() ? row.checkpoint : unet->second;
  if (const Preset* guess = GuessPreset(path, row.family)) {
    const bool is_base = row.flag == "base";
    const std::string flag = is_base ? "--preset=" : absl::StrCat(",preset=");
    options.warn(absl::StrCat("the name of ", path, " speaks of the preset ", guess->name,
                              ", which has other defaults: ", flag, guess->name,
                              is_base ? "" : absl::StrCat(" behind --", row.flag, "=..."),
                              " takes them, ", flag, "none says that it is another kind"));
  }
  return absl::OkStatus();
}

weights::CheckpointPaths PathsOf(const ModelRow& model, const LoadOptions& options) {
  const ModelParts& parts = model.parts;
  return {.path = model.checkpoint,
          .variant = options.variant,
          .components = {parts.components.begin(), parts.components.end()},
          .components_from = parts.components_from,
          .prediction_type = parts.prediction_type,
          .ema = parts.ema,
          .flag = model.flag};
}

// The first model's, of which the configurations count in any case, and those of others that draw.
absl::StatusOr<std::vector<Source>> OpenCheckpoints(ModelTable& table, const LoadOptions& options) {
  std::vector<Source> sources;
  for (const ModelRow& model : table.rows()) {
    if (!sources.empty() && IsOff(options.components, FlagNameOf(kUnetName, model.name))) continue;
    ASSIGN_OR_RETURN(Checkpoint checkpoint,
                     Checkpoint::Open(PathsOf(model, options), options.digests));
    ASSIGN_OR_RETURN(const families::Family* family, families::FindFamily(model, checkpoint));
    ModelRow& row = table[model.id];
    row.family = std::string(family->name);
    row.has_refiners = family->hands_over_to != nullptr;
    if (!row.is_refiner) RETURN_IF_ERROR(SetPreset(options, row));
    sources.push_back({model, *family, std::move(checkpoint)});
  }
  RETURN_IF_ERROR(CheckHandingOver(sources));
  return sources;
}

// The table with all that the options say of its models.
ModelTable TableOf(const LoadOptions& options) {
  ModelTable table = ModelTable::FromFlags(options.base, options.refiner, options.models);
  for (const ModelRow& model : table.rows()) {
    ModelRow& row = table[model.id];
    if (row.buckets.empty() && !row.draws_videos) row.buckets = options.buckets;
    if (row.flag == "base") {
      row.parts = options.base_parts;
      row.preset_name = options.preset;
    }
    if (row.flag == "refiner") row.parts = options.refiner_parts;
    if (row.scheduler.empty()) row.scheduler = options.scheduler;
  }
  return table;
}

using Tell = std::function<void(absl::string_view)>;

void TellAll(const std::vector<std::string>& sentences, const Tell& tell) {
  if (!tell) return;
  for (const std::string& sentence : sentences) tell(sentence);
}

absl::Status OpenAdapters(adapters::Catalogue& catalogue, const Pipeline::LoadedModels& models) {
  std::vector<adapters::AdaptedModel> adapted;
  for (const auto& model : models) {
    if (model == nullptr || !model->draws() || model->row().draws_videos) continue;
    adapters::AdaptedModel& one = adapted.emplace_back();
    one.name = model->row().name;
    one.family = model->row().family;
    one.modules =
        std::make_shared<const adapters::ModelModules>(model->graphs().weights().Shapes());
    one.unet = std::make_shared<const networks::Unet2dConditionConfig>(model->configs().unet);
    for (const families::TextEncoder& encoder : model->text_encoders()) {
      one.encoders.push_back({encoder.component, encoder.config.hidden_size});
    }
  }
  const absl::Status opened = catalogue.Open(std::move(adapted));
  if (opened.ok()) return opened;
  return absl::Status(opened.code(), absl::StrCat("--adapters: ", opened.message()));
}

std::vector<std::string> DescribeAll(const ModelRow& row, const std::vector<AppliedLora>& loras) {
  std::vector<std::string> sentences;
  for (const AppliedLora& lora : loras) sentences.push_back(Describe(row, lora));
  return sentences;
}

ModelOptions OptionsOfModels(const LoadOptions& options, int64_t most_feature_bytes) {
  const bool has_adapters = options.adapters != nullptr;
  return {.components = options.components,
          .precision = options.precision,
          .reference = options.reference,
          .vae_tiling_above = options.vae_tiling_above,
          .takes_vectors = has_adapters,
          .path_slots = has_adapters ? options.path_slots : 0,
          .path_ranks = options.path_ranks,
          .pixels_in_parts = options.pixels_in_parts,
          .most_feature_bytes = most_feature_bytes,
          .f8_convolutions = options.f8_convolutions};
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Pipeline>> LoadPipeline(const LoadOptions& options,
                                                             weights::WeightStore& store,
                                                             compiler::GraphStore& graphs) {
  ModelTable table = TableOf(options);
  RETURN_IF_ERROR(CheckComponents(options.components, table));
  ASSIGN_OR_RETURN(const std::vector<Source> sources, OpenCheckpoints(table, options));
  for (const Source& source : sources) TellAll(source.checkpoint.notes(), options.note);
  // Before models are placed: all devices are to say the same.
  ASSIGN_OR_RETURN(const int64_t beside_weights,
                   LeastBesideWeights(sources, options, store.device()));
  RETURN_IF_ERROR(Place(sources, options, table));
  RETURN_IF_ERROR(CheckMemory(sources, options, store.device()));
  const ModelOptions model_options = OptionsOfModels(options, beside_weights / kFeaturesPart);
  Pipeline::LoadedModels models(table.rows().size());
  for (const Source& source : sources) {
    RETURN_IF_ERROR(GiveUp(options));
    ASSIGN_OR_RETURN(auto model, LoadedModel::Load(source.model, source.family, source.checkpoint,
                                                   store, graphs, model_options));
    TellAll(source.checkpoint.warnings(), options.warn);
    TellAll(families::FindLeftOut(source.family, source.checkpoint), options.warn);
    TellAll(model->warnings(), options.warn);
    TellAll(model->lora_warnings(), options.warn);
    TellAll(DescribeAll(source.model, model->loras()), options.note);
    table[source.model.id] = model->row();
    models[static_cast<size_t>(source.model.id.value)] = std::move(model);
  }
  std::unique_ptr<AdapterSets> adapters;
  if (options.adapters != nullptr) {
    RETURN_IF_ERROR(OpenAdapters(*options.adapters, models));
    adapters = std::make_unique<AdapterSets>(*options.adapters, graphs);
  }
  return Pipeline::Create(
      std::move(table), std::move(models), options.components,
      {options.row_counts, options.max_shared_pixels, options.split, options.feature_cache},
      {options.prompt_chunks, options.prompt_blends}, std::move(adapters));
}

}  // namespace latentd::pipeline
