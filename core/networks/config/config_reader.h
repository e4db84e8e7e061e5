// Reads the fields of one config.json with their types and limits, and collects every mistake, so
// that one error names all of them. A field that was not asked for is passed over, as the reference
// libraries do, and can be told.
//
//   ASSIGN_OR_RETURN(ConfigReader reader,
//                    ConfigReader::Parse(text, "base/vae/config.json", "AutoencoderKL"));
//   config.latent_channels = reader.Integer("latent_channels", 4, {1, 256});
//   RETURN_IF_ERROR(reader.Finish(kUnreadByAutoencoderKl));
//   config.unknown_fields = reader.unknown_fields();
//
// An absent field has the given fallback, which is the default of diffusers or transformers. A
// mistaken field gives the fallback too, so that reading can go on; Finish() tells. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/unread_fields.h"
#include "nlohmann/json_fwd.hpp"

namespace latentd::networks {

// Bounds of an integer field, inclusive: they keep a hostile file from asking for a graph without
// end.
struct Range {
  int64_t min = 1;
  int64_t max = 1 << 20;
};

class ConfigReader {
 public:
  static constexpr size_t kMaxBytes = 1 << 20;

  // INVALID_ARGUMENT that starts with `source` (a path or a component's name) unless `text` is one
  // JSON object of at most kMaxBytes, nested at most kMaxJsonDepth deep. A field _class_name, where
  // there is one, must be `class_name`.
  static absl::StatusOr<ConfigReader> Parse(absl::string_view text, absl::string_view source,
                                            absl::string_view class_name);
  // The same, whatever _class_name says.
  static absl::StatusOr<ConfigReader> ParseAnyClass(absl::string_view text,
                                                    absl::string_view source);
  ~ConfigReader();
  ConfigReader(ConfigReader&&) noexcept;

  // null is false, as in Python: SDXL's UNet has upcast_attention null.
  bool Boolean(absl::string_view name, bool fallback);
  int64_t Integer(absl::string_view name, int64_t fallback, Range range);
  double Number(absl::string_view name, double fallback);
  double Positive(absl::string_view name, double fallback);
  std::string Choice(absl::string_view name, absl::string_view fallback,
                     std::initializer_list<absl::string_view> supported);

  // There and null, which some fields tell from absent.
  bool IsNull(absl::string_view name);

  // Fields that may be null; null and absent are nullopt.
  std::optional<int64_t> IntegerOrNull(absl::string_view name, Range range);
  std::optional<double> NumberOrNull(absl::string_view name);
  std::optional<std::vector<double>> NumbersOrNull(absl::string_view name);
  std::optional<std::string> ChoiceOrNull(absl::string_view name,
                                          std::initializer_list<absl::string_view> supported);

  // Lists of 1 to kMaxListLength elements.
  static constexpr size_t kMaxListLength = 16;
  std::vector<int64_t> Integers(absl::string_view name, std::vector<int64_t> fallback, Range range);
  std::vector<std::string> Choices(absl::string_view name, std::vector<std::string> fallback,
                                   std::initializer_list<absl::string_view> supported);

  // One value for all blocks, or a list with one for each.
  std::vector<int64_t> PerBlock(absl::string_view name, int64_t fallback, size_t blocks,
                                Range range);
  std::vector<bool> PerBlock(absl::string_view name, bool fallback, size_t blocks);

  // One value for all layers of all blocks, or a list with one for each block, which may be a list
  // in turn with one for each layer: at least layers[i] of them for block i. nullopt where the
  // field is null or absent.
  std::optional<std::vector<std::vector<int64_t>>> PerLayer(absl::string_view name,
                                                            const std::vector<int64_t>& layers,
                                                            Range range);

  // The width and height of a picture or latent: a number for both, or [height, width]; null and
  // absent are nullopt.
  struct Size {
    int64_t height, width;
    bool operator==(const Size&) const = default;
  };
  std::optional<Size> SizeOrNull(absl::string_view name);

  // A mistake that the caller found: "field NAME " + `what`.
  void Mistake(absl::string_view name, absl::string_view what);

  // OK iff there was no mistake, those among `unread` included that are not off.
  absl::Status Finish(const UnreadFields& unread = {});

  // The fields of the file that were neither read nor among `unread`, in alphabetical order,
  // escaped and cut to what a message can show; not those that begin with "_", which tell where the
  // file came from. REQUIRES: Finish was called.
  std::vector<std::string> unknown_fields() const;

 private:
  struct State;
  explicit ConfigReader(std::unique_ptr<State> state);

  // nullptr if the field is absent.
  const nlohmann::json* Find(absl::string_view name);
  // A mistake unless absent, null, false or empty.
  void RequireOff(absl::string_view name);
  void WrongValue(absl::string_view name, const nlohmann::json& value, absl::string_view supported);
  std::optional<int64_t> AsInteger(absl::string_view name, const nlohmann::json& value,
                                   Range range);
  std::optional<std::string> AsChoice(absl::string_view name, const nlohmann::json& value,
                                      std::initializer_list<absl::string_view> supported);
  std::vector<int64_t> LayersOfBlock(absl::string_view name, const nlohmann::json& value,
                                     int64_t layers, Range range);

  std::unique_ptr<State> state_;
};

}  // namespace latentd::networks
