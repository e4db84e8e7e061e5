// The adapters of a server by name: what lies below its folder, of which kind each is, which of its
// models each is for, and why some are not served. A broken one is listed, and hinders none.
//
// A file may be edited, replaced or removed at any time. Find looks at each use whether it is the
// one that was read last (its identity, then its content), and Load reads the one that Find has
// told of and no other: what is made of an adapter is never of two contents.
//
// Thread-safe. Methods read files on the calling thread, as far as each says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/control_net/control_net.h"
#include "core/adapters/ip_adapter/ip_adapter.h"
#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/model_modules.h"
#include "core/adapters/textual_inversion/embedding.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/pipeline/spec/request/adapter.h"
#include "core/pipeline/spec/request/words.h"

namespace latentd::adapters {

// Reasons of errors.
inline constexpr char kAdapterUnusable[] = "ADAPTER_UNUSABLE";
inline constexpr char kAdapterChanged[] = "ADAPTER_CHANGED";

// A word that is read as text, since its textual inversion cannot be used any more.
struct LostWord {
  std::string text;
  std::string adapter;  // its name
  std::string why;      // for clients
};

// A model that adapters may be for.
struct AdaptedModel {
  std::string name;
  std::shared_ptr<const ModelModules> modules;
  std::vector<TextEncoderWidth> encoders;  // in the order of its graphs
  // Configuration of its UNet, which ControlNets and IP-Adapters are for; null: none is for the
  // model.
  std::shared_ptr<const networks::Unet2dConditionConfig> unet = nullptr;
  std::string family = {};  // whose presets its LoRAs may bring: "sdxl"
};

class Catalogue {
 public:
  explicit Catalogue(AdapterFolder folder) : folder_(std::move(folder)) {}

  // Reads the headers of all adapters, and textual inversions whole, and checks each against the
  // models. The first call counts: later ones, of other devices with the same models, do nothing.
  // An error of the folder's own.
  absl::Status Open(std::vector<AdaptedModel> models) ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // Reads what is new or was edited in the folder since, and forgets what has gone. Requests go on
  // beside it, and find each adapter as soon as it was read; new words count when all were.
  absl::Status Look() ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // Reads the contents of adapters that have no digest yet, until that were so many bytes.
  void ReadDigests(int64_t most_bytes) ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // As far as is known without asking the disk, in the order of their names.
  std::vector<pipeline::AdapterFacts> List() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The adapter as its files are now: asks for their identity, and reads the header of one that was
  // edited. NOT_FOUND names the nearest; FAILED_PRECONDITION, reason ADAPTER_UNUSABLE: it is not
  // served, and why. Errors are for clients: they do not say where its file is.
  absl::StatusOr<pipeline::AdapterFacts> Find(absl::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);

  // A LoRA's changes of that model, read whole; shared with all callers that hold the same. It
  // is in memory while they are held. FAILED_PRECONDITION, reason ADAPTER_CHANGED: it is not the
  // one with that stamp any more; ADAPTER_UNUSABLE: what is wrong with its data, which is listed
  // from then on.
  absl::StatusOr<std::shared_ptr<const Lora>> Load(absl::string_view name, absl::string_view stamp,
                                                   absl::string_view model)
      ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // A ControlNet for that model. Its data is mapped and read when it is used, as a checkpoint's.
  // Errors as Load's.
  absl::StatusOr<std::shared_ptr<const ControlNet>> LoadControlNet(absl::string_view name,
                                                                   absl::string_view stamp,
                                                                   absl::string_view model)
      ABSL_LOCKS_EXCLUDED(reading_, mutex_);

  // An IP-Adapter for that model, likewise, with its image encoder, which its stamp is of too.
  absl::StatusOr<std::shared_ptr<const IpAdapter>> LoadIpAdapter(absl::string_view name,
                                                                 absl::string_view stamp,
                                                                 absl::string_view model)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Words of the model's prompts, as far as is known without asking the disk; never null.
  pipeline::SharedWords WordsOf(absl::string_view model) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Texts that were words, or would be if their files were not broken; never null.
  std::shared_ptr<const std::vector<LostWord>> LostWords() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    pipeline::AdapterFacts facts;
    std::map<std::string, pipeline::Word> words;  // a textual inversion's, by model
    bool was_word = false;                        // the one before of its name had words
  };
  // The words of a textual inversion that are those of another one, too, which counts.
  struct Conflict {
    std::string other;                // its name
    std::vector<std::string> models;  // for which both are
  };
  using SharedEntry = std::shared_ptr<const Entry>;
  using Entries = std::map<std::string, SharedEntry, std::less<>>;
  using LoraPlace = std::pair<std::string, std::string>;  // name and stamp, and model

  absl::Status LookLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) ABSL_LOCKS_EXCLUDED(mutex_);
  SharedEntry Lookup(absl::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts it in the place of the one of its name.
  void Replace(SharedEntry entry) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, unless another one than `known` (null: none) is there by now.
  void Put(SharedEntry entry, const SharedEntry& known) ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetAllBut(const std::set<std::string>& names) ABSL_LOCKS_EXCLUDED(mutex_);
  SharedEntry Read(const FoundAdapter& found, const SharedEntry& known) const;
  // Adds to the stamp of an adapter's file that of what is read beside it: image encoders up to its
  // own, which one that is nearer would replace.
  std::string WithEncoders(std::string stamp, const pipeline::AdapterFacts& facts) const;
  // The stamp of an adapter as its files are now; NOT_FOUND and such name the file.
  absl::StatusOr<std::string> StampOf(const pipeline::AdapterFacts& facts) const;
  // Its word is none from here on, until the next look.
  void LoseWord(const Entry& known, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // With what another one has of it.
  pipeline::AdapterFacts FactsOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadLora(const LoraFile& file, Entry& entry) const;
  void ReadWord(const LoraFile& file, Entry& entry) const;
  void ReadControlNet(const LoraFile& file, Entry& entry) const;
  void ReadIpAdapter(const std::string& path, const LoraFile& file, Entry& entry) const;
  // The file of a network with that stamp, and the UNet that it is for.
  struct NetworkFile {
    LoraFile file;
    const networks::Unet2dConditionConfig& unet;
  };
  absl::StatusOr<NetworkFile> OpenNetwork(absl::string_view name, absl::string_view stamp,
                                          absl::string_view model) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // ADAPTER_CHANGED: the file of that name has another stamp by now.
  absl::Status CheckStamp(absl::string_view name, absl::string_view stamp) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // One whose preset none of its models can have is broken.
  void CheckPreset(pipeline::AdapterFacts& facts) const;
  absl::Status NoSuchAdapter(absl::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  void SetWords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetLostWords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const AdaptedModel* FindModel(absl::string_view name) const;
  absl::StatusOr<Lora> LoadNow(const Entry& entry, const AdaptedModel& model)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const AdapterFolder folder_;

  mutable absl::Mutex reading_;  // one thread reads the folder
  bool open_ ABSL_GUARDED_BY(reading_) = false;
  std::vector<AdaptedModel> models_;  // set by Open, before there are entries

  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(reading_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, pipeline::SharedWords, std::less<>> words_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Conflict, std::less<>> conflicts_ ABSL_GUARDED_BY(mutex_);  // by name
  std::set<std::string> gone_ ABSL_GUARDED_BY(mutex_);  // names of words that have gone
  std::shared_ptr<const std::vector<LostWord>> lost_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const std::vector<LostWord>>();
  std::map<LoraPlace, std::weak_ptr<const Lora>> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::adapters
