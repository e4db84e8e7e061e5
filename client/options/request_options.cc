#include "client/options/request_options.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/options/block_scales.h"
#include "client/options/embeds_file.h"
#include "client/options/files.h"
#include "client/words/option_words.h"
#include "client/words/suggestions.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Headings of the groups of Flag, in their order in --help.
constexpr std::pair<v1::Flag::Group, const char*> kGroups[] = {
    {v1::Flag::IMAGE, "The picture"},
    {v1::Flag::REFINING, "Refiner and image-to-image"},
    {v1::Flag::NOISE_SCHEDULER, "Noise scheduler (default: the server's)"},
    {v1::Flag::FINE_TUNING, "Fine tuning"}};

absl::Status Wrong(absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", right));
}

absl::Status SetBool(Message& message, const FieldDescriptor& field, const std::string& text) {
  if (text != "true" && text != "false") return Wrong("true or false");
  message.GetReflection()->SetBool(&message, &field, text == "true");
  return absl::OkStatus();
}

absl::Status SetInt32(Message& message, const FieldDescriptor& field, const std::string& text) {
  int32_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return Wrong("a whole number");
  message.GetReflection()->SetInt32(&message, &field, number);
  return absl::OkStatus();
}

absl::Status SetUint64(Message& message, const FieldDescriptor& field, const std::string& text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return Wrong("a whole number from 0 to 2^64 - 1");
  const Reflection& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddUInt64(&message, &field, number)
                      : reflection.SetUInt64(&message, &field, number);
  return absl::OkStatus();
}

absl::Status SetDouble(Message& message, const FieldDescriptor& field, const std::string& text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return Wrong("a number");
  const Reflection& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddDouble(&message, &field, number)
                      : reflection.SetDouble(&message, &field, number);
  return absl::OkStatus();
}

absl::Status SetEnum(Message& message, const FieldDescriptor& field, const std::string& text) {
  const std::vector<std::string> choices = ChoicesOf(*field.enum_type());
  ASSIGN_OR_RETURN(const std::string choice, ToChoice(text, choices));
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const auto* value = field.enum_type()->value(i);
    if (ChoiceOf(*value) == choice) message.GetReflection()->SetEnum(&message, &field, value);
  }
  return absl::OkStatus();
}

// A text, or for bytes the content of the file of that name.
absl::Status SetString(Message& message, const FieldDescriptor& field, std::string text) {
  if (field.type() == FieldDescriptor::TYPE_BYTES) {
    ASSIGN_OR_RETURN(text, ReadFile(text));
  }
  message.GetReflection()->SetString(&message, &field, std::move(text));
  return absl::OkStatus();
}

absl::Status SetScalar(Message& message, const FieldDescriptor& field, const std::string& text) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetBool(message, field, text);
    case FieldDescriptor::CPPTYPE_INT32:
      return SetInt32(message, field, text);
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetUint64(message, field, text);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetDouble(message, field, text);
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(message, field, text);
    default:
      return SetString(message, field, text);
  }
}

// "7,8,9"
absl::Status SetList(Message& message, const FieldDescriptor& field, const std::string& text) {
  message.GetReflection()->ClearField(&message, &field);
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::Status set = SetScalar(message, field, std::string(part));
    if (!set.ok()) return Wrong("a list such as 1,2,3");
  }
  return absl::OkStatus();
}

absl::string_view PairText(const Descriptor& type) {
  if (&type == v1::Size::descriptor()) return "WIDTHxHEIGHT, such as 1024x768";
  if (&type == v1::Offset::descriptor()) return "TOP,LEFT, such as 0,16";
  return "START,STOP, such as 0.2,0.8";
}

// "film", "film:0.8" or "film:0.8:0.5", the last of the text encoders.
absl::Status AddAdapter(Message& message, const FieldDescriptor& field, const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  double weight = 1, text_weight = 1;
  const bool right = !parts[0].empty() && parts.size() <= 3 &&
                     (parts.size() < 2 || absl::SimpleAtod(parts[1], &weight)) &&
                     (parts.size() < 3 || absl::SimpleAtod(parts[2], &text_weight));
  if (!right) return Wrong("NAME, NAME:WEIGHT or NAME:WEIGHT:TEXT_ENCODER_WEIGHT");
  Message& added = *message.GetReflection()->AddMessage(&message, &field);
  auto& adapter = static_cast<v1::Adapter&>(added);
  adapter.set_name(parts[0]);
  if (parts.size() > 1) adapter.set_weight(weight);
  if (parts.size() > 2) adapter.set_text_encoder_weight(text_weight);
  return absl::OkStatus();
}

constexpr char kModePrefix[] = "CONTROL_MODE_";

// "openpose, depth" and so on: the first one stands for no default.
std::string ControlModes() {
  std::vector<std::string> names;
  const auto& type = *v1::ControlMode_descriptor();
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(absl::AsciiStrToLower(absl::StripPrefix(type.value(i)->name(), kModePrefix)));
  }
  return absl::StrJoin(names, ", ");
}

// "canny" or "union@canny", with a name or a number of the type of the map.
absl::Status SetControlName(const std::string& text, v1::Control& control) {
  const size_t at = text.rfind('@');
  control.set_name(text.substr(0, at));
  if (at == std::string::npos) return absl::OkStatus();
  const std::string word = text.substr(at + 1);
  v1::ControlMode named = v1::CONTROL_MODE_OPENPOSE;
  int32_t mode = 0;
  if (v1::ControlMode_Parse(absl::StrCat(kModePrefix, absl::AsciiStrToUpper(word)), &named)) {
    mode = named;
  } else if (!absl::SimpleAtoi(word, &mode)) {
    return Wrong(absl::StrCat("NAME@MODE=FILE, with MODE a number or one of ", ControlModes()));
  }
  control.set_control_mode(mode);
  return absl::OkStatus();
}

// "canny=edges.png", "canny=edges.png:0.7" or "canny=edges.png:0.7:0:0.5", with the scale, the
// start and the end; "union@canny=edges.png" with the type of the map.
absl::Status AddControl(Message& message, const FieldDescriptor& field, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string file = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::vector<std::string> parts = absl::StrSplit(file, ':');
  std::vector<double> numbers;  // the last first
  double number = 0;
  while (parts.size() > 1 && numbers.size() < 3 && absl::SimpleAtod(parts.back(), &number)) {
    numbers.push_back(number);
    parts.pop_back();
  }
  if (equals == 0 || file.empty() || numbers.size() == 2) {
    return Wrong("NAME=FILE, NAME=FILE:SCALE or NAME=FILE:SCALE:START:END");
  }
  v1::Control control;
  RETURN_IF_ERROR(SetControlName(text.substr(0, equals), control));
  ASSIGN_OR_RETURN(std::string image, ReadFile(absl::StrJoin(parts, ":")));
  control.set_image(std::move(image));
  if (!numbers.empty()) control.set_scale(numbers.back());
  if (numbers.size() == 3) {
    control.set_start(numbers[1]);
    control.set_end(numbers[0]);
  }
  static_cast<v1::Control&>(*message.GetReflection()->AddMessage(&message, &field)) =
      std::move(control);
  return absl::OkStatus();
}

// The contents of "cat.png" or of "cat.png,dog.png"; a file whose name has a comma is one.
absl::StatusOr<std::vector<std::string>> ReadFiles(const std::string& list) {
  std::vector<std::string> files;
  absl::StatusOr<std::string> whole = ReadFile(list);
  if (whole.ok() || !absl::StrContains(list, ',')) {
    RETURN_IF_ERROR(whole.status());
    files.push_back(*std::move(whole));
    return files;
  }
  for (const absl::string_view name : absl::StrSplit(list, ',')) {
    ASSIGN_OR_RETURN(files.emplace_back(), ReadFile(std::string(name)));
  }
  return files;
}

// Sets what the adapter reads: images, or embeddings of them.
absl::Status SetImages(const std::string& list, v1::IpAdapter& prompt) {
  ASSIGN_OR_RETURN(std::vector<std::string> images, ReadFiles(list));
  if (images.size() == 1 && IsTensorFile(images.front())) {
    return ReadImageEmbeds(images.front(), list, *prompt.mutable_image_embeds());
  }
  prompt.set_image(std::move(images.front()));
  for (size_t i = 1; i < images.size(); ++i) prompt.add_more_images(std::move(images[i]));
  return absl::OkStatus();
}

// "ip-adapter_sdxl=cat.png", "ip-adapter_sdxl=cat.png:0.6" with the scale, of several images
// "ip-adapter_sdxl=cat.png,dog.png:0.6", or with scales by block
// "ip-adapter_sdxl=cat.png:{\"up\": {\"block_0\": [0, 1, 0]}}".
absl::Status AddIpAdapter(Message& message, const FieldDescriptor& field, const std::string& text) {
  const size_t equals = text.find('=');
  std::string file = equals == std::string::npos ? "" : text.substr(equals + 1);
  v1::IpAdapter prompt;
  const size_t tree = file.find(":{");
  if (tree != std::string::npos) {
    RETURN_IF_ERROR(AddBlockScales(file.substr(tree + 1), *prompt.mutable_scales()));
    file.resize(tree);
  }
  const size_t colon = file.rfind(':');
  double scale = 1;
  const bool has_scale =
      colon != std::string::npos && absl::SimpleAtod(file.substr(colon + 1), &scale);
  if (has_scale) file.resize(colon);
  if (equals == 0 || file.empty()) return Wrong("NAME=FILE, NAME=FILE:SCALE or NAME=FILE:TREE");
  RETURN_IF_ERROR(SetImages(file, prompt));
  prompt.set_name(text.substr(0, equals));
  if (has_scale) prompt.set_scale(scale);
  message.GetReflection()->AddMessage(&message, &field)->CopyFrom(prompt);
  return absl::OkStatus();
}

// Two numbers, as "512x384" or "0,16", into a Size, an Offset or a GuidanceInterval; one into
// Previews; the file of that name into a Tensor.
absl::Status SetMessage(Message& message, const FieldDescriptor& field, const std::string& text) {
  const Descriptor& type = *field.message_type();
  if (&type == v1::Tensor::descriptor()) return ReadEmbeds(text, field, message);
  if (&type == v1::Adapter::descriptor()) return AddAdapter(message, field, text);
  if (&type == v1::Control::descriptor()) return AddControl(message, field, text);
  if (&type == v1::IpAdapter::descriptor()) return AddIpAdapter(message, field, text);
  Message& inner = *message.GetReflection()->MutableMessage(&message, &field);
  if (type.field_count() == 1) return SetScalar(inner, *type.field(0), text);
  const std::vector<std::string> parts =
      absl::StrSplit(text, &type == v1::Size::descriptor() ? 'x' : ',');
  for (int i = 0; i < 2; ++i) {
    if (parts.size() != 2 || !SetScalar(inner, *type.field(i), parts[i]).ok()) {
      return Wrong(PairText(type));
    }
  }
  return absl::OkStatus();
}

absl::Status SetField(Message& message, const FieldDescriptor& field, const std::string& text) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return SetMessage(message, field, text);
  return field.is_repeated() ? SetList(message, field, text) : SetScalar(message, field, text);
}

std::string ValueOf(const FieldDescriptor& field);

std::string ValueOf(const Descriptor& type) {
  if (&type == v1::Size::descriptor()) return "WxH";
  if (&type == v1::Tensor::descriptor()) return "FILE";
  if (type.field_count() == 1) return ValueOf(*type.field(0));
  return absl::AsciiStrToUpper(absl::StrCat(type.field(0)->name(), ",", type.field(1)->name()));
}

// Name of the value of a field of that type.
std::string ValueOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return field.is_repeated() ? "N,N,..." : "N";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return field.is_repeated() ? "X,X,..." : "X";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ValueOf(*field.message_type());
    default:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "FILE" : "NAME";
  }
}

// Options of the fields of that group.
OptionGroup OptionsOfGroup(Message& request, v1::Flag::Group group, const char* title) {
  OptionGroup made{title, {}};
  const Descriptor& type = *request.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const v1::Flag& flag = type.field(i)->options().GetExtension(v1::flag);
    if (flag.help().empty() || flag.group() != group) continue;
    made.options.push_back(FieldOption(request, type.field(i)->name()));
  }
  return made;
}

}  // namespace

Option FieldOption(Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  const v1::Flag& flag = field->options().GetExtension(v1::flag);
  Option option = {
      flag.name().empty() ? absl::StrReplaceAll(name, {{"_", "-"}}) : flag.name(),
      flag.value().empty() ? ValueOf(*field) : flag.value(), flag.help(),
      [&message, field](const std::string& text) { return SetField(message, *field, text); }};
  if (!flag.letter().empty()) option.letter = flag.letter().front();
  option.repeats = field->is_repeated() && field->message_type() != nullptr;
  if (field->enum_type() != nullptr) option.choices = ChoicesOf(*field->enum_type());
  return option;
}

std::vector<OptionGroup> RequestOptions(v1::GenerateRequest& request) {
  std::vector<OptionGroup> groups;
  for (const auto& [group, title] : kGroups)
    groups.push_back(OptionsOfGroup(request, group, title));
  return groups;
}

std::vector<OptionGroup> RequestOptions(v1::GenerateVideoRequest& request) {
  return {OptionsOfGroup(request, v1::Flag::IMAGE, "The video"),
          OptionsOfGroup(request, v1::Flag::FINE_TUNING, "Fine tuning")};
}

std::string OptionSpelling(const std::string& field) {
  if (field == "prompt") return "PROMPT";
  if (absl::StartsWith(field, "previews")) return "--previews";
  if (field == "mask_image") return "--mask";
  if (absl::StartsWith(field, "adapters")) return "--adapter";
  if (absl::StartsWith(field, "controls")) return "--control";
  if (absl::StartsWith(field, "ip_adapters")) return "--ip-adapter";
  if (field == "id" || absl::StartsWith(field, "selector.ids")) return "ID";
  if (absl::StartsWith(field, "selector.components")) return "--component";
  if (absl::StartsWith(field, "selector.buckets")) return "--bucket";
  const std::string last = field.substr(field.rfind('.') + 1);  // "output.quality" is --quality
  return absl::StrCat("--", absl::StrReplaceAll(last, {{"_", "-"}}));
}

}  // namespace latentd::client
