#include "core/weights/weight_store.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/device/host_device.h"
#include "core/graph/recipes.h"
#include "core/graph/text.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Place;
using device::Shape;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

constexpr size_t kAllBytes = std::numeric_limits<size_t>::max();
// Recipes whose making_bytes_ are remembered: a set of LoRAs of all linears brings some twenty.
constexpr size_t kMostKnown = 4096;

// The recipe of the set's sources: of stored tensors alone.
absl::StatusOr<Source> OverSet(const Graph& recipe, const WeightSet& set) {
  std::vector<Source> sources;
  for (const ValueId id : recipe.Select(Op::kWeight)) {
    ASSIGN_OR_RETURN(sources.emplace_back(), set.Find(recipe.node(id).name));
  }
  return Compose(recipe, sources);
}

// All that a result depends on, on one machine and with one maker.
std::string NameOf(const Source& source, absl::string_view form) {
  return absl::StrCat(form, "\n", source.Content());
}

// Name of the weight in the archive.
std::string KeptName(const WeightCache& archive, const std::string& name) {
  // 3: before, the recipes' weights had their files' dtypes.
  return absl::StrCat("weight 3 of ", archive.version, "\n", name);
}

const Node& PlainNode(const Source& source) { return graph::ResultOf(*source.make); }

DType WantedDType(const Node& plain, const WeightFormat& format) {
  return format.form.empty() ? plain.dtype : DType::kU8;
}

Shape WantedShape(const Node& plain, const WeightFormat& format) {
  return format.form.empty() ? plain.shape : Shape{static_cast<int64_t>(format.bytes)};
}

size_t WantedBytes(const Node& plain, const WeightFormat& format) {
  const int64_t elements = WantedShape(plain, format).elements();
  return static_cast<size_t>(elements * device::SizeOf(WantedDType(plain, format)));
}

// A tensor as it is.
bool IsStored(const Node& plain, const WeightFormat& format) {
  return format.form.empty() && plain.op == Op::kWeight;
}

// The tensor as it is, as sets without changes have it.
absl::StatusOr<Source> Plain(const StoredTensor& tensor) {
  return Compose(Graph({{.op = Op::kWeight,
                         .dtype = tensor.data.dtype(),
                         .shape = tensor.data.shape(),
                         .name = "w0"}},
                       {graph::Output{"result", 0}}),
                 {Source::Of(tensor)});
}

// True of what a LoRA that a request named has changed, which no start keeps for the next one.
bool IsOfRequest(const Source& source) {
  return std::any_of(source.from.begin(), source.from.end(),
                     [](const StoredTensor& tensor) { return tensor.part_of != nullptr; });
}

std::vector<ConstBuffer> DataOf(const std::vector<StoredTensor>& sources) {
  std::vector<ConstBuffer> data;
  data.reserve(sources.size());
  for (const StoredTensor& source : sources) data.push_back(source.data);
  return data;
}

// The component that a recipe's weights are of: "unet" of "unet/conv_in.weight".
std::string ComponentOf(const Graph& recipe) {
  const std::vector<ValueId> weights = recipe.Select(Op::kWeight);
  if (weights.empty()) return "";
  const std::string& name = recipe.node(weights[0]).name;
  const size_t slash = name.find('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

absl::Status CheckUnchanged(const std::vector<StoredTensor>& sources) {
  for (const StoredTensor& source : sources) RETURN_IF_ERROR(weights::CheckUnchanged(source));
  return absl::OkStatus();
}

// Checks that what was read of the sources since CheckUnchanged is what their digests name, and
// releases their pages. Reads them.
absl::Status FinishReading(const std::vector<StoredTensor>& sources) {
  for (const StoredTensor& source : sources) RETURN_IF_ERROR(CheckContent(source, source.data));
  // With SDXL's VAE: 114 MiB of resident pages, and no measurable time.
  for (const StoredTensor& source : sources) ReleasePages(source);
  return absl::OkStatus();
}

bool IsAligned(const ConstBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % device::kAlignment == 0;
}

// Whose memory is where archives map theirs.
bool IsHost(const device::Device& device) { return &device == &device::Host(); }

// An exception must not leave an entry that others wait for for ever. `of_host`: set where it is
// the host that has no memory.
template <typename Function>
auto CatchAll(const std::vector<StoredTensor>& sources, bool& of_host, Function make)
    -> decltype(make()) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    of_host = true;
    return OutOfMemoryError(absl::StrCat(
        "no memory for ", sources.empty() ? "a constant" : sources[0].file, " made ready to run"));
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("cannot make a weight ready: ", exception.what()));
  }
}

}  // namespace

struct WeightStore::NewResult {
  ConstBuffer result;
  bool mapped = false;
  bool keep = false;  // worth keeping, and not from the archive
};

// One result: being made, then held, then gone with its last user. An entry that failed or is gone
// is no longer in the map.
struct WeightStore::Entry {
  bool making = true;
  absl::Status failure;
  NewResult made;
  std::map<User, int> users;  // waiting ones too
};

// A WeightRef's use of a result, which it keeps alive.
struct WeightStore::Use {
  Use(WeightStore* store, const Digest& key, EntryPointer entry, User user)
      : store(store), key(key), entry(std::move(entry)), user(std::move(user)) {}
  ~Use() { store->Leave(key, entry, user); }
  Use(const Use&) = delete;

  WeightStore* store;
  Digest key;
  EntryPointer entry;
  User user;
};

absl::StatusOr<WeightRef> WeightStore::Get(const Graph& recipe, const WeightSet& set,
                                           const WeightFormat& format) {
  ASSIGN_OR_RETURN(const Source source, OverSet(recipe, set));
  const std::string name = NameOf(source, format.form);
  RETURN_IF_ERROR(CheckUnchanged(source.from));
  const Digest key = DigestOf(name);
  User user = {set.name(), ComponentOf(recipe)};
  EntryPointer entry;
  const bool is_maker = Join(key, user, &entry);
  if (is_maker) {
    const auto make = [&] { return Make(source, format, KeptName(archive_, name)); };
    bool dropped = kept_tensors().bytes() > 0;  // another thread may do it meanwhile
    bool of_host = false;                       // tensors of the device do not help then
    absl::StatusOr<NewResult> made = CatchAll(source.from, of_host, make);
    if (absl::IsResourceExhausted(made.status()) && (!of_host || IsHost(maker_.device()))) {
      dropped |= kept_tensors().Drop(kAllBytes) > 0;
      if (dropped) made = CatchAll(source.from, of_host, make);
    }
    Finish(key, entry, std::move(made));
  }
  if (!entry->failure.ok()) return entry->failure;
  const ConstBuffer* result = &entry->made.result;
  // After the others could go on.
  if (is_maker && entry->made.keep) Keep(KeptName(archive_, name), *result);
  return WeightRef(std::make_shared<Use>(this, key, std::move(entry), std::move(user)), result);
}

absl::StatusOr<ResultNeeds> WeightStore::NeedsOf(const Graph& recipe, const WeightSet& set,
                                                 const WeightFormat& format) const {
  ASSIGN_OR_RETURN(const Source source, OverSet(recipe, set));
  bool of_host = false;
  ASSIGN_OR_RETURN(const size_t making_bytes,
                   CatchAll(source.from, of_host, [&] { return MakingBytes(source, format); }));
  return ResultNeeds{DigestOf(NameOf(source, format.form)).ToString(),
                     WantedBytes(PlainNode(source), format), making_bytes};
}

bool WeightStore::Join(const Digest& key, const User& user, EntryPointer* entry) {
  absl::MutexLock lock(&mutex_);
  auto found = entries_.find(key);
  const bool is_maker = found == entries_.end();
  if (is_maker) {  // none waits for it before all of it is there
    auto made = std::make_shared<Entry>();
    made->users[user] = 0;
    found = entries_.emplace(key, std::move(made)).first;
  }
  *entry = found->second;
  ++(*entry)->users[user];
  if (!is_maker) {
    mutex_.Await(absl::Condition(
        +[](Entry* entry) { return !entry->making; }, entry->get()));
  }
  return is_maker;
}

std::optional<ConstBuffer> WeightStore::FindKept(const Node& plain, const WeightFormat& format,
                                                 const std::string& name) const {
  const size_t bytes = WantedBytes(plain, format);
  if (archive_.find == nullptr || IsStored(plain, format) || bytes < archive_.least_bytes)
    return std::nullopt;
  std::optional<ConstBuffer> found = archive_.find(name);
  if (!found || found->bytes() != bytes || !IsAligned(*found)) return std::nullopt;
  const auto owner = std::make_shared<ConstBuffer>(*std::move(found));
  return ConstBuffer::Wrap(owner->data(), WantedDType(plain, format), WantedShape(plain, format),
                           owner);
}

absl::StatusOr<Buffer> WeightStore::Copied(const ConstBuffer& from, Place to) const {
  device::Device& device = maker_.device();
  ASSIGN_OR_RETURN(Buffer copy, to == Place::kDevice
                                    ? device.AllocatePacked(from.dtype(), from.shape())
                                    : device.Allocate(from.dtype(), from.shape(), to));
  ASSIGN_OR_RETURN(const auto stream, device.NewStream(SystemClock()));
  RETURN_IF_ERROR(device.Copy(from, copy, *stream));
  RETURN_IF_ERROR(stream->Synchronize());
  return copy;
}

absl::StatusOr<size_t> WeightStore::MakingBytes(const Source& source,
                                                const WeightFormat& format) const {
  const std::vector<ConstBuffer> data = DataOf(source.from);
  const Digest key =
      DigestOf(absl::StrCat(format.form, " ", format.bytes, " ", format.scratch_bytes, " ",
                            CopiedBytes(data), "\n", graph::ToText(*source.make)));
  {
    absl::MutexLock lock(&mutex_);
    const auto known = making_bytes_.find(key);
    if (known != making_bytes_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(const size_t bytes, maker_.MakingBytes(*source.make, data, format));
  absl::MutexLock lock(&mutex_);
  if (making_bytes_.size() >= kMostKnown) making_bytes_.clear();
  return making_bytes_[key] = bytes;
}

std::optional<ConstBuffer> WeightStore::FindHeld(const StoredTensor& tensor) const {
  const absl::StatusOr<Source> plain = Plain(tensor);
  if (!plain.ok()) return std::nullopt;
  const Digest key = DigestOf(NameOf(*plain, ""));
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second->making) return std::nullopt;
  return found->second->made.result;
}

std::optional<ConstBuffer> WeightStore::OnDevice(const StoredTensor& tensor) {
  std::optional<ConstBuffer> found = kept_tensors().Find(tensor);
  if (!found && tensor.of_base) found = FindHeld(tensor);
  return found ? found : tensors_.Bring(tensor);
}

absl::StatusOr<Buffer> WeightStore::MakeOnDevice(const Source& source, const WeightFormat& format) {
  const Node& plain = PlainNode(source);
  std::vector<ConstBuffer> sources;
  std::vector<StoredTensor> read;  // on the host
  ASSIGN_OR_RETURN(Buffer made, maker_.device().AllocatePacked(WantedDType(plain, format),
                                                               WantedShape(plain, format)));
  for (const StoredTensor& tensor : source.from) {
    std::optional<ConstBuffer> there = OnDevice(tensor);
    if (!there) read.push_back(tensor);
    sources.push_back(there ? *std::move(there) : tensor.data);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> stream, streams_.Take());
  RETURN_IF_ERROR(maker_.MakeWeight(*source.make, sources, format.form, made, *stream));
  RETURN_IF_ERROR(streams_.Finish(std::move(stream)));
  RETURN_IF_ERROR(FinishReading(read));
  return made;
}

absl::StatusOr<WeightStore::NewResult> WeightStore::Make(const Source& source,
                                                         const WeightFormat& format,
                                                         const std::string& name) {
  const Node& plain = PlainNode(source);
  const bool keeps = keeps_ || IsHost(maker_.device());
  std::optional<ConstBuffer> kept;
  if (keeps || !IsOfRequest(source)) kept = FindKept(plain, format, name);
  if (kept) {
    if (IsHost(maker_.device())) return NewResult{*std::move(kept), /*mapped=*/true};
    ASSIGN_OR_RETURN(Buffer copy, Copied(*kept, Place::kDevice));
    return NewResult{std::move(copy)};
  }
  ASSIGN_OR_RETURN(Buffer made, MakeOnDevice(source, format));
  const bool keep = keeps && archive_.keep != nullptr && !IsStored(plain, format) &&
                    made.bytes() >= archive_.least_bytes;
  return NewResult{std::move(made), /*mapped=*/false, keep};
}

void WeightStore::Keep(const std::string& name, const ConstBuffer& result) const {
  if (IsHost(maker_.device())) return archive_.keep(name, result);
  const absl::StatusOr<Buffer> copy = Copied(result, Place::kHost);
  if (copy.ok()) archive_.keep(name, *copy);
}

void WeightStore::Finish(const Digest& key, const EntryPointer& entry,
                         absl::StatusOr<NewResult> made) {
  absl::MutexLock lock(&mutex_);
  entry->making = false;
  if (made.ok()) {
    entry->made = *std::move(made);
  } else {
    entry->failure = made.status();
    entries_.erase(key);
  }
}

void WeightStore::Leave(const Digest& key, const EntryPointer& entry, const User& user) {
  absl::MutexLock lock(&mutex_);
  const auto left = entry->users.find(user);
  if (--left->second == 0) entry->users.erase(left);
  if (entry->users.empty()) entries_.erase(key);
}

size_t WeightStore::bytes_held() const {
  absl::MutexLock lock(&mutex_);
  size_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += entry->making ? 0 : entry->made.result.bytes();
  return bytes;
}

size_t WeightStore::mapped_bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (!entry->making && entry->made.mapped) bytes += entry->made.result.bytes();
  }
  return bytes;
}

size_t WeightStore::entries() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return !entry.second->making; }));
}

std::vector<WeightInfo> WeightStore::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<WeightInfo> results;
  for (const auto& [key, entry] : entries_) {
    if (entry->making) continue;
    WeightInfo& held = results.emplace_back();
    held = {key.ToString(), entry->made.result.bytes(), entry->made.mapped};
    std::set<std::string> components, sets;
    for (const auto& [user, count] : entry->users) {
      held.users += count;
      components.insert(user.component);
      sets.insert(user.set);
    }
    held.components.assign(components.begin(), components.end());
    held.sets.assign(sets.begin(), sets.end());
    held.data = entry->made.result.data();
  }
  return results;
}

}  // namespace latentd::weights
