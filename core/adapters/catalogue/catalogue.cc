#include "core/adapters/catalogue/catalogue.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/adapters/catalogue/adapter_facts.h"
#include "core/adapters/catalogue/adapter_kind.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/edit_distance.h"
#include "core/base/text/text.h"
#include "core/pipeline/spec/presets.h"

namespace latentd::adapters {
namespace {

using pipeline::AdapterFacts;
using pipeline::AdapterKind;
using pipeline::EmbeddingVectors;
using pipeline::SharedWords;
using pipeline::Word;
using pipeline::Words;

// The problem as clients read it: the place of the file is its operators' business.
std::string ForClients(const AdapterFacts& facts) {
  if (facts.path.empty()) return facts.problem;
  return absl::StrReplaceAll(facts.problem, {{facts.path, facts.name}});
}

absl::Status Unusable(const AdapterFacts& facts) {
  return WithFacts(
      WithReason(absl::FailedPreconditionError(absl::StrCat(
                     "the adapter ", facts.name, " cannot be used: ", ForClients(facts))),
                 kAdapterUnusable),
      {{"name", facts.name}});
}

absl::Status Changed(absl::string_view name) {
  return WithFacts(
      WithReason(absl::FailedPreconditionError(absl::StrCat(
                     "the adapter ", name, " was edited since the request was taken: ask again")),
                 kAdapterChanged),
      {{"name", std::string(name)}});
}

// "film" of "styles/film".
std::string LastPart(const std::string& name) {
  return name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
}

// Orders of sentences: why none of the models takes it, by the first.
std::string ProblemOf(const std::vector<std::string>& problems) {
  return problems.empty() ? "there is no model that it could be for" : problems.front();
}

std::string ReadDigestOfEncoder(const IpAdapter& adapter, int64_t& most_bytes) {
  for (const auto& [name, tensor] : adapter.encoder_tensors) {
    most_bytes -= static_cast<int64_t>(tensor.data.bytes());
  }
  return DigestOfEncoder(adapter.encoder_tensors, adapter.encoder_config);
}

}  // namespace

absl::Status Catalogue::Open(std::vector<AdaptedModel> models) {
  absl::MutexLock reading(&reading_);
  if (open_) return absl::OkStatus();
  models_ = std::move(models);
  RETURN_IF_ERROR(LookLocked());
  open_ = true;
  return absl::OkStatus();
}

absl::Status Catalogue::Look() {
  absl::MutexLock reading(&reading_);
  return open_ ? LookLocked() : absl::OkStatus();
}

absl::Status Catalogue::LookLocked() {
  ASSIGN_OR_RETURN(const std::vector<FoundAdapter> found, folder_.list());
  std::set<std::string> names;
  for (const FoundAdapter& adapter : found) {
    names.insert(adapter.name);
    const SharedEntry known = Lookup(adapter.name);
    const bool is_same = known != nullptr && known->facts.path == adapter.path &&
                         !adapter.stamp.empty() &&
                         known->facts.stamp == WithEncoders(adapter.stamp, known->facts);
    if (!is_same) Put(Read(adapter, known), known);
  }
  ForgetAllBut(names);
  return absl::OkStatus();
}

void Catalogue::Put(SharedEntry entry, const SharedEntry& known) {
  absl::MutexLock lock(&mutex_);
  SharedEntry& place = entries_[entry->facts.name];
  if (place != known) return;
  place = std::move(entry);
  // A word that was there must not be what it was; the new ones come together.
  if (known != nullptr && !known->words.empty()) SetWords();
}

void Catalogue::ForgetAllBut(const std::set<std::string>& names) {
  absl::MutexLock lock(&mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (!names.contains(entry->first)) {
      const bool is_word = !entry->second->words.empty() || entry->second->was_word;
      if (is_word) gone_.insert(entry->first);
      entries_.erase(entry);
    }
    entry = next;
  }
  std::erase_if(gone_, [&](const std::string& name) { return names.contains(name); });
  SetWords();
  std::erase_if(loaded_, [](const auto& lora) { return lora.second.expired(); });
}

void Catalogue::ReadDigests(int64_t most_bytes) {
  // By the stamps of their files: adapters have few, and large ones.
  std::map<std::string, std::string> encoders;
  for (const AdapterFacts& facts : List()) {
    if (!facts.is_served() || !facts.digest.empty() || most_bytes <= 0) continue;
    absl::MutexLock reading(&reading_);
    const SharedEntry known = Lookup(facts.name);
    if (known == nullptr || known->facts.stamp != facts.stamp) continue;
    // A network is as large as a model: its data is read as the digest asks for it.
    const bool is_net =
        facts.kind == AdapterKind::kControlNet || facts.kind == AdapterKind::kIpAdapter;
    const absl::StatusOr<LoraFile> file =
        is_net ? folder_.open(facts.path) : folder_.read(facts.path);
    if (!file.ok()) continue;  // a look says what has become of it
    most_bytes -= BytesOf(*file);
    std::string digest = DigestOf(*file), encoder_stamp, encoder;
    if (facts.kind == AdapterKind::kIpAdapter) {
      const auto adapter = LoadIpAdapter(facts.name, facts.stamp, facts.models.front());
      if (!adapter.ok()) continue;
      encoder_stamp = (*adapter)->encoder_stamp;
      const auto known_one = encoders.find(encoder_stamp);
      encoder = known_one == encoders.end() ? ReadDigestOfEncoder(**adapter, most_bytes)
                                            : known_one->second;
      digest = DigestOfBoth(digest, encoder);
    }
    const absl::StatusOr<std::string> now = StampOf(facts);
    if (!now.ok() || *now != facts.stamp) continue;
    // Kept once it is known that nothing was edited meanwhile.
    if (!encoder_stamp.empty()) encoders[encoder_stamp] = encoder;
    auto read = std::make_shared<Entry>(*known);
    read->facts.digest = std::move(digest);
    Put(std::move(read), known);
  }
}

std::vector<AdapterFacts> Catalogue::List() const {
  std::vector<AdapterFacts> all;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) all.push_back(FactsOf(*entry));
  return all;
}

Catalogue::SharedEntry Catalogue::Lookup(absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

void Catalogue::Replace(SharedEntry entry) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(entry->facts.name);
  if (found == entries_.end()) return;
  found->second = std::move(entry);
  SetWords();
}

absl::StatusOr<AdapterFacts> Catalogue::Find(absl::string_view name) {
  SharedEntry known = Lookup(name);
  if (known == nullptr) return NoSuchAdapter(name);
  const std::string& path = known->facts.path;
  absl::StatusOr<std::string> stamp = folder_.stamp(path);
  if (!stamp.ok()) {
    LoseWord(*known, stamp.status());
    AdapterFacts gone = known->facts;
    gone.problem = std::string(stamp.status().message());
    return Unusable(gone);
  }
  if (WithEncoders(*stamp, known->facts) != known->facts.stamp) {
    known = Read({.name = known->facts.name, .path = path, .stamp = *stamp}, known);
    Replace(known);
  }
  absl::MutexLock lock(&mutex_);
  AdapterFacts facts = FactsOf(*known);
  if (!facts.is_served()) return Unusable(facts);
  return facts;
}

void Catalogue::LoseWord(const Entry& known, const absl::Status& why) {
  if (known.words.empty()) return;
  auto lost = std::make_shared<Entry>();
  lost->facts = known.facts;
  lost->facts.problem = std::string(why.message());
  lost->facts.stamp.clear();
  lost->was_word = true;
  Replace(std::move(lost));
}

AdapterFacts Catalogue::FactsOf(const Entry& entry) const {
  AdapterFacts facts = entry.facts;
  const auto conflict = conflicts_.find(facts.name);
  if (conflict == conflicts_.end() || !facts.is_served()) return facts;
  const Conflict& with = conflict->second;
  std::string text = absl::StrCat("its word ", LastPart(facts.name), " is that of ", with.other,
                                  " too, which counts: rename one of them");
  if (with.models.size() == entry.words.size()) {
    facts.problem = std::move(text);
  } else {
    facts.warnings.push_back(absl::StrCat("for ", absl::StrJoin(with.models, ", "), " ", text));
  }
  return facts;
}

absl::Status Catalogue::NoSuchAdapter(absl::string_view name) const {
  constexpr size_t kMostCompared = 256;
  const absl::string_view compared = name.substr(0, kMostCompared);
  std::string nearest;
  size_t least = std::max<size_t>(2, compared.size() / 2) + 1;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [known, entry] : entries_) {
      const size_t distance =
          std::min(EditDistance(compared, known), EditDistance(compared, LastPart(known)));
      if (distance >= least) continue;
      least = distance;
      nearest = known;
    }
  }
  return WithFacts(
      WithReason(absl::NotFoundError(absl::StrCat(
                     "there is no adapter ", Excerpt(name), " below --adapters",
                     nearest.empty() ? "" : absl::StrCat("; the nearest is ", nearest))),
                 "NO_SUCH_ADAPTER"),
      {{"name", Excerpt(name)}, {"nearest", nearest}});
}

Catalogue::SharedEntry Catalogue::Read(const FoundAdapter& found, const SharedEntry& known) const {
  auto entry = std::make_shared<Entry>();
  entry->was_word = known != nullptr && (known->was_word || !known->words.empty());
  AdapterFacts& facts = entry->facts;
  facts.name = found.name;
  facts.path = found.path;
  facts.stamp = found.stamp;
  facts.problem = found.problem;
  if (!facts.is_served()) return entry;
  const absl::StatusOr<LoraFile> file = folder_.open(found.path);
  if (!file.ok()) {
    facts.problem = std::string(file.status().message());
    return entry;
  }
  facts.kind = KindOf(file->tensors);
  const std::string before = WithEncoders(found.stamp, facts);
  const std::string why = WhyNotServed(facts.kind, file->tensors);
  if (!why.empty()) {
    facts.problem = absl::StrCat(found.path, " ", why);
  } else if (facts.kind == AdapterKind::kLora) {
    ReadLora(*file, *entry);
  } else if (facts.kind == AdapterKind::kControlNet) {
    ReadControlNet(*file, *entry);
  } else if (facts.kind == AdapterKind::kIpAdapter) {
    ReadIpAdapter(found.path, *file, *entry);
  } else {
    ReadWord(*file, *entry);
  }
  AddSaid(folder_.said(found.path), facts);
  CheckPreset(facts);
  if (!facts.is_served()) entry->words.clear();
  // Data that was read is of the stamp if it is the file's before and after.
  AdapterFacts of_all = facts;
  of_all.image_encoder.clear();
  facts.stamp = WithEncoders(found.stamp, facts);
  const absl::StatusOr<std::string> after = StampOf(of_all);
  if (!after.ok() || *after != before) facts.stamp.clear();
  return entry;
}

std::string Catalogue::WithEncoders(std::string stamp, const AdapterFacts& facts) const {
  if (facts.kind == AdapterKind::kIpAdapter) {
    absl::StrAppend(&stamp, folder_.encoders_stamp(facts.path, facts.image_encoder));
  }
  return stamp;
}

absl::StatusOr<std::string> Catalogue::StampOf(const AdapterFacts& facts) const {
  ASSIGN_OR_RETURN(std::string stamp, folder_.stamp(facts.path));
  return WithEncoders(std::move(stamp), facts);
}

void Catalogue::ReadLora(const LoraFile& file, Entry& entry) const {
  std::vector<std::string> problems;
  std::optional<Lora> first;
  for (const AdaptedModel& model : models_) {
    absl::StatusOr<Lora> lora = MakeLora(entry.facts.name, file, *model.modules, Values::kUnread);
    if (!lora.ok()) {
      problems.emplace_back(lora.status().message());
      continue;
    }
    entry.facts.models.push_back(model.name);
    if (!first) first = *std::move(lora);
  }
  if (!first) {
    entry.facts.problem = ProblemOf(problems);
    AddMetadata(file, entry.facts);
    return;
  }
  AddFacts(*first, entry.facts);
}

void Catalogue::CheckPreset(AdapterFacts& facts) const {
  if (facts.preset.empty() || !facts.is_served()) return;
  absl::Status known = pipeline::CheckPresetName(facts.preset);
  if (facts.kind != AdapterKind::kLora) {
    known = absl::InvalidArgumentError("only a LoRA brings one");
  } else if (known.ok()) {
    for (const std::string& name : facts.models) {
      known = pipeline::FindPreset(facts.preset, FindModel(name)->family).status();
      if (known.ok()) return;
    }
  }
  if (known.ok()) return;
  facts.problem =
      absl::StrCat(facts.path, ": the preset in the .json beside it: ", known.message());
}

void Catalogue::ReadControlNet(const LoraFile& file, Entry& entry) const {
  AddMetadata(file, entry.facts);
  std::vector<std::string> problems;
  for (const AdaptedModel& model : models_) {
    if (model.unet == nullptr) continue;
    const absl::StatusOr<ControlNet> net = MakeControlNet(entry.facts.name, file, *model.unet);
    if (!net.ok()) {
      problems.emplace_back(net.status().message());
      continue;
    }
    entry.facts.models.push_back(model.name);
    entry.facts.control_modes = static_cast<int>(net->config.image_types);
  }
  if (entry.facts.models.empty()) entry.facts.problem = ProblemOf(problems);
}

void Catalogue::ReadIpAdapter(const std::string& path, const LoraFile& file, Entry& entry) const {
  AdapterFacts& facts = entry.facts;
  AddMetadata(file, facts);
  const std::vector<ImageEncoderFile> encoders = folder_.image_encoders(path);
  std::vector<std::string> problems;
  for (const AdaptedModel& model : models_) {
    if (model.unet == nullptr) continue;
    const absl::StatusOr<IpAdapter> adapter =
        MakeIpAdapter(facts.name, file, encoders, *model.unet);
    if (!adapter.ok()) {
      problems.emplace_back(adapter.status().message());
      continue;
    }
    facts.models.push_back(model.name);
    facts.variant = std::string(adapter->variant());
    facts.image_tokens = static_cast<int>(adapter->config.tokens);
    facts.image_bytes = adapter->image_bytes();
    facts.image_shape = adapter->image_shape();
    facts.image_encoder = adapter->encoder_path;
  }
  if (facts.models.empty()) facts.problem = ProblemOf(problems);
}

void Catalogue::ReadWord(const LoraFile& file, Entry& entry) const {
  AdapterFacts& facts = entry.facts;
  AddMetadata(file, facts);
  const absl::StatusOr<Embedding> embedding = ReadEmbedding(file.path, file.tensors);
  if (!embedding.ok()) {
    facts.problem = std::string(embedding.status().message());
    return;
  }
  facts.vectors = static_cast<int>(embedding->most_vectors());
  std::vector<std::string> problems;
  for (const AdaptedModel& model : models_) {
    absl::StatusOr<std::vector<EmbeddingVectors>> vectors =
        VectorsFor(file.path, *embedding, model.encoders);
    if (!vectors.ok()) {
      problems.emplace_back(vectors.status().message());
      continue;
    }
    facts.models.push_back(model.name);
    entry.words.emplace(model.name, Word{LastPart(facts.name), facts.name, *std::move(vectors)});
  }
  if (facts.models.empty()) facts.problem = ProblemOf(problems);
  facts.digest = DigestOf(file);
}

// The first by its name counts of two with one text.
void Catalogue::SetWords() {
  words_.clear();
  conflicts_.clear();
  for (const AdaptedModel& model : models_) {
    absl::btree_map<std::string, const Word*> sorted;
    for (const auto& [name, entry] : entries_) {
      const auto word = entry->words.find(model.name);
      if (word == entry->words.end()) continue;
      const auto [counts, is_first] = sorted.emplace(word->second.text, &word->second);
      if (is_first) continue;
      Conflict& conflict = conflicts_[name];
      conflict.other = counts->second->adapter;
      conflict.models.push_back(model.name);
    }
    auto words = std::make_shared<Words>();
    for (const auto& [text, word] : sorted) words->push_back(*word);
    words_[model.name] = std::move(words);
  }
  SetLostWords();
}

void Catalogue::SetLostWords() {
  auto lost = std::make_shared<std::vector<LostWord>>();
  for (const auto& [name, entry] : entries_) {
    const AdapterFacts& facts = entry->facts;
    const bool was_word = entry->was_word || facts.kind == AdapterKind::kTextualInversion;
    if (!was_word || facts.is_served()) continue;
    lost->push_back({LastPart(name), name, ForClients(facts)});
  }
  for (const std::string& name : gone_) {
    lost->push_back({LastPart(name), name, "its file has gone"});
  }
  lost_ = std::move(lost);
}

std::shared_ptr<const std::vector<LostWord>> Catalogue::LostWords() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

SharedWords Catalogue::WordsOf(absl::string_view model) const {
  static const auto& none = *new SharedWords(std::make_shared<const Words>());
  absl::MutexLock lock(&mutex_);
  const auto found = words_.find(model);
  return found == words_.end() ? none : found->second;
}

const AdaptedModel* Catalogue::FindModel(absl::string_view name) const {
  const auto found =
      absl::c_find_if(models_, [&](const AdaptedModel& model) { return model.name == name; });
  return found == models_.end() ? nullptr : &*found;
}

absl::StatusOr<std::shared_ptr<const Lora>> Catalogue::Load(absl::string_view name,
                                                            absl::string_view stamp,
                                                            absl::string_view model) {
  const SharedEntry known = Lookup(name);
  if (known == nullptr || known->facts.stamp != stamp) return Changed(name);
  if (!known->facts.is_served()) return Unusable(known->facts);
  const LoraPlace place = {absl::StrCat(name, "\n", stamp), std::string(model)};
  {
    absl::MutexLock lock(&mutex_);
    const auto loaded = loaded_.find(place);
    if (loaded != loaded_.end()) {
      if (std::shared_ptr<const Lora> lora = loaded->second.lock()) return lora;
    }
  }
  const AdaptedModel* adapted = FindModel(model);
  if (adapted == nullptr) return absl::InternalError(absl::StrCat("no model ", model));
  ASSIGN_OR_RETURN(Lora lora, LoadNow(*known, *adapted));
  auto shared = std::make_shared<const Lora>(std::move(lora));
  absl::MutexLock lock(&mutex_);
  loaded_[place] = shared;
  return shared;
}

absl::StatusOr<Catalogue::NetworkFile> Catalogue::OpenNetwork(absl::string_view name,
                                                              absl::string_view stamp,
                                                              absl::string_view model) const {
  const SharedEntry known = Lookup(name);
  if (known == nullptr || known->facts.stamp != stamp) return Changed(name);
  if (!known->facts.is_served()) return Unusable(known->facts);
  const AdaptedModel* adapted = FindModel(model);
  if (adapted == nullptr || adapted->unet == nullptr) {
    return absl::InternalError(absl::StrCat("no model ", model, " for networks beside it"));
  }
  absl::StatusOr<LoraFile> file = folder_.open(known->facts.path);
  if (!file.ok()) return Changed(name);
  return NetworkFile{*std::move(file), *adapted->unet};
}

absl::Status Catalogue::CheckStamp(absl::string_view name, absl::string_view stamp) const {
  const SharedEntry known = Lookup(name);
  if (known == nullptr) return Changed(name);
  const absl::StatusOr<std::string> now = StampOf(known->facts);
  return now.ok() && *now == stamp ? absl::OkStatus() : Changed(name);
}

absl::StatusOr<std::shared_ptr<const ControlNet>> Catalogue::LoadControlNet(
    absl::string_view name, absl::string_view stamp, absl::string_view model) {
  ASSIGN_OR_RETURN(const NetworkFile network, OpenNetwork(name, stamp, model));
  ASSIGN_OR_RETURN(ControlNet net, MakeControlNet(std::string(name), network.file, network.unet));
  RETURN_IF_ERROR(CheckStamp(name, stamp));
  return std::make_shared<const ControlNet>(std::move(net));
}

absl::StatusOr<std::shared_ptr<const IpAdapter>> Catalogue::LoadIpAdapter(absl::string_view name,
                                                                          absl::string_view stamp,
                                                                          absl::string_view model) {
  ASSIGN_OR_RETURN(const NetworkFile network, OpenNetwork(name, stamp, model));
  absl::StatusOr<IpAdapter> adapter = MakeIpAdapter(
      std::string(name), network.file, folder_.image_encoders(network.file.path), network.unet);
  RETURN_IF_ERROR(CheckStamp(name, stamp));
  if (adapter.ok()) return std::make_shared<const IpAdapter>(*std::move(adapter));
  return Unusable({.name = std::string(name),
                   .path = network.file.path,
                   .problem = std::string(adapter.status().message())});
}

absl::StatusOr<Lora> Catalogue::LoadNow(const Entry& entry, const AdaptedModel& model) {
  const AdapterFacts& facts = entry.facts;
  const absl::StatusOr<LoraFile> file = folder_.read(facts.path);
  if (absl::IsResourceExhausted(file.status())) return file.status();
  if (!file.ok()) return Changed(facts.name);
  absl::StatusOr<Lora> lora = MakeLora(facts.name, *file, *model.modules);
  const absl::StatusOr<std::string> now = folder_.stamp(facts.path);
  if (!now.ok() || *now != facts.stamp) return Changed(facts.name);
  auto read = std::make_shared<Entry>(entry);
  if (!lora.ok()) {
    read->facts.problem = std::string(lora.status().message());
    const absl::Status unusable = Unusable(read->facts);
    Replace(std::move(read));
    return unusable;
  }
  if (facts.digest.empty()) {
    read->facts.digest = DigestOf(*file);
    Replace(std::move(read));
  }
  return lora;
}

}  // namespace latentd::adapters
