#include "server/generation/conversion/field_conversion.h"

#include <google/protobuf/reflection.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/pipeline/spec/video_fields.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A row of the table and its place in the proto.
struct ProtoField {
  const pipeline::Field* row;
  const FieldDescriptor* holder;  // message of the request that has it; null: the request has it
  const FieldDescriptor* field;
};

ProtoField FindProtoField(const Descriptor& type, const pipeline::Field& row) {
  const std::vector<std::string> path = absl::StrSplit(row.name, '.');
  const FieldDescriptor* first = type.FindFieldByName(path.front());
  if (path.size() == 1) return {&row, nullptr, first};
  return {&row, first, first->message_type()->FindFieldByName(path.back())};
}

std::vector<ProtoField> FindProtoFields(const Descriptor& type,
                                        const std::vector<pipeline::Field>& rows) {
  std::vector<ProtoField> all;
  for (const pipeline::Field& row : rows) all.push_back(FindProtoField(type, row));
  return all;
}

const std::vector<ProtoField>& ProtoFields() {
  static const auto& fields = *new std::vector<ProtoField>(
      FindProtoFields(*v1::GenerateRequest::descriptor(), pipeline::Fields()));
  return fields;
}

const std::vector<ProtoField>& VideoProtoFields() {
  static const auto& fields = *new std::vector<ProtoField>(
      FindProtoFields(*v1::GenerateVideoRequest::descriptor(), pipeline::VideoFields()));
  return fields;
}

const Reflection& Of(const Message& message) { return *message.GetReflection(); }

// Name of an enum's value as the engine has it: MODEL_REFINER is "refiner"; none, the value that
// stands for its default.
std::string ShortName(const google::protobuf::EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr || value->number() == 0) return "";
  const absl::string_view prefix = absl::StripSuffix(type.value(0)->name(), "UNSPECIFIED");
  return absl::AsciiStrToLower(absl::StripPrefix(value->name(), prefix));
}

template <typename Enum>
constexpr int NumberOf(Enum value) {
  return static_cast<int>(value) + 1;
}
static_assert(NumberOf(pipeline::BucketPolicy::kExact) == v1::BUCKET_POLICY_EXACT);
static_assert(NumberOf(pipeline::BucketPolicy::kSnap) == v1::BUCKET_POLICY_SNAP);
static_assert(NumberOf(pipeline::BucketPolicy::kColdOk) == v1::BUCKET_POLICY_COLD_OK);
static_assert(NumberOf(pipeline::ResizeMode::kStretch) == v1::RESIZE_MODE_STRETCH);
static_assert(NumberOf(pipeline::ResizeMode::kCrop) == v1::RESIZE_MODE_CROP);
static_assert(NumberOf(prompts::Syntax::kNone) == v1::PROMPT_SYNTAX_NONE);
static_assert(NumberOf(prompts::Syntax::kA1111) == v1::PROMPT_SYNTAX_A1111);
static_assert(NumberOf(prompts::Syntax::kComfyUi) == v1::PROMPT_SYNTAX_COMFYUI);
static_assert(NumberOf(prompts::Syntax::kCompel) == v1::PROMPT_SYNTAX_COMPEL);
static_assert(NumberOf(prompts::LongPrompt::kTruncate) == v1::LONG_PROMPT_TRUNCATE);
static_assert(NumberOf(prompts::LongPrompt::kChunk) == v1::LONG_PROMPT_CHUNK);
static_assert(NumberOf(pipeline::GuidanceStop::kNever) == v1::GUIDANCE_STOP_NEVER);
static_assert(NumberOf(pipeline::GuidanceStop::kAuto) == v1::GUIDANCE_STOP_AUTO);
static_assert(NumberOf(pipeline::Effort::kFull) == v1::EFFORT_FULL);
static_assert(NumberOf(pipeline::Effort::kHigh) == v1::EFFORT_HIGH);
static_assert(NumberOf(pipeline::Effort::kFast) == v1::EFFORT_FAST);

using AdapterList = std::vector<pipeline::Adapter>;
using ControlList = std::vector<pipeline::Control>;
using ImagePromptList = std::vector<pipeline::ImagePrompt>;

// Without its image, which is an input (request_conversion.cc).
pipeline::Control ReadControl(const v1::Control& proto) {
  pipeline::Control control{.name = proto.name()};
  if (proto.has_scale()) control.scale = proto.scale();
  if (proto.has_start()) control.start = proto.start();
  if (proto.has_end()) control.end = proto.end();
  if (proto.has_control_mode()) control.mode = proto.control_mode();
  return control;
}

v1::Control WriteControl(const pipeline::Control& control) {
  v1::Control proto;
  proto.set_name(control.name);
  if (control.scale) proto.set_scale(*control.scale);
  if (control.start) proto.set_start(*control.start);
  if (control.end) proto.set_end(*control.end);
  if (control.mode) proto.set_control_mode(*control.mode);
  return proto;
}

pipeline::BlockScale ReadBlockScale(const v1::BlockScale& proto) {
  return {.block = proto.block(), .values = {proto.values().begin(), proto.values().end()}};
}

v1::BlockScale WriteBlockScale(const pipeline::BlockScale& scale) {
  v1::BlockScale proto;
  proto.set_block(scale.block);
  for (const double value : scale.values) proto.add_values(value);
  return proto;
}

// As a control without its image, and without embeddings of it.
pipeline::ImagePrompt ReadIpAdapter(const v1::IpAdapter& proto) {
  pipeline::ImagePrompt prompt{.name = proto.name()};
  if (proto.has_scale()) prompt.scale = proto.scale();
  for (const v1::BlockScale& scale : proto.scales()) prompt.scales.push_back(ReadBlockScale(scale));
  return prompt;
}

v1::IpAdapter WriteIpAdapter(const pipeline::ImagePrompt& prompt) {
  v1::IpAdapter proto;
  proto.set_name(prompt.name);
  if (prompt.scale) proto.set_scale(*prompt.scale);
  for (const pipeline::BlockScale& scale : prompt.scales) {
    *proto.add_scales() = WriteBlockScale(scale);
  }
  return proto;
}

pipeline::Adapter ReadAdapter(const v1::Adapter& proto) {
  pipeline::Adapter adapter{.name = proto.name()};
  if (proto.has_weight()) adapter.weight = proto.weight();
  if (proto.has_text_encoder_weight()) adapter.text_encoder_weight = proto.text_encoder_weight();
  return adapter;
}

v1::Adapter WriteAdapter(const pipeline::Adapter& adapter) {
  v1::Adapter proto;
  proto.set_name(adapter.name);
  if (adapter.weight) proto.set_weight(*adapter.weight);
  if (adapter.text_encoder_weight) proto.set_text_encoder_weight(*adapter.text_encoder_weight);
  return proto;
}

// The two members of what is a message of two fields; a size has its frames elsewhere.
template <typename T>
auto PairOf(T& value) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, pipeline::Size>) {
    return std::tie(value.width, value.height);
  } else {
    auto& [first, second] = value;
    return std::tie(first, second);
  }
}

template <typename T>
void Read(const Message& from, const FieldDescriptor& field, T& to) {
  const Reflection& reflection = Of(from);
  if constexpr (std::is_same_v<T, AdapterList>) {
    for (const v1::Adapter& proto : reflection.GetRepeatedFieldRef<v1::Adapter>(from, &field)) {
      to.push_back(ReadAdapter(proto));
    }
  } else if constexpr (std::is_same_v<T, ControlList>) {
    for (const v1::Control& proto : reflection.GetRepeatedFieldRef<v1::Control>(from, &field)) {
      to.push_back(ReadControl(proto));
    }
  } else if constexpr (std::is_same_v<T, ImagePromptList>) {
    for (const v1::IpAdapter& proto : reflection.GetRepeatedFieldRef<v1::IpAdapter>(from, &field)) {
      to.push_back(ReadIpAdapter(proto));
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    to = reflection.GetBool(from, &field);
  } else if constexpr (std::is_same_v<T, int>) {
    to = reflection.GetInt32(from, &field);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    to = reflection.GetUInt64(from, &field);
  } else if constexpr (std::is_same_v<T, double>) {
    to = reflection.GetDouble(from, &field);
  } else if constexpr (std::is_same_v<T, std::string>) {
    to = field.enum_type() == nullptr
             ? reflection.GetString(from, &field)
             : ShortName(*field.enum_type(), reflection.GetEnumValue(from, &field));
  } else if constexpr (std::is_enum_v<T>) {
    const int number = reflection.GetEnumValue(from, &field);
    const bool known = number > 0 && field.enum_type()->FindValueByNumber(number) != nullptr;
    to = known ? static_cast<T>(number - 1) : T();  // an unknown value is a violation of its own
  } else if constexpr (requires { to.emplace(); }) {
    Read(from, field, to.emplace());
  } else if constexpr (requires { to.clear(); }) {
    const auto values = reflection.GetRepeatedFieldRef<typename T::value_type>(from, &field);
    to.assign(values.begin(), values.end());
  } else {
    auto [first, second] = PairOf(to);
    const Message& pair = reflection.GetMessage(from, &field);
    Read(pair, *field.message_type()->field(0), first);
    Read(pair, *field.message_type()->field(1), second);
  }
}

void WriteText(const std::string& value, Message& to, const FieldDescriptor& field) {
  if (field.enum_type() == nullptr) return Of(to).SetString(&to, &field, value);
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const auto* known = field.enum_type()->value(i);
    if (ShortName(*field.enum_type(), known->number()) == value) Of(to).SetEnum(&to, &field, known);
  }
}

template <typename T>
void Write(const T& value, Message& to, const FieldDescriptor& field) {
  const Reflection& reflection = Of(to);
  if constexpr (std::is_same_v<T, AdapterList>) {
    const auto list = reflection.GetMutableRepeatedFieldRef<v1::Adapter>(&to, &field);
    for (const pipeline::Adapter& adapter : value) list.Add(WriteAdapter(adapter));
  } else if constexpr (std::is_same_v<T, ControlList>) {
    const auto list = reflection.GetMutableRepeatedFieldRef<v1::Control>(&to, &field);
    for (const pipeline::Control& control : value) list.Add(WriteControl(control));
  } else if constexpr (std::is_same_v<T, ImagePromptList>) {
    const auto list = reflection.GetMutableRepeatedFieldRef<v1::IpAdapter>(&to, &field);
    for (const pipeline::ImagePrompt& prompt : value) list.Add(WriteIpAdapter(prompt));
  } else if constexpr (std::is_same_v<T, bool>) {
    reflection.SetBool(&to, &field, value);
  } else if constexpr (std::is_same_v<T, int>) {
    reflection.SetInt32(&to, &field, value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    reflection.SetUInt64(&to, &field, value);
  } else if constexpr (std::is_same_v<T, double>) {
    reflection.SetDouble(&to, &field, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    WriteText(value, to, field);
  } else if constexpr (std::is_enum_v<T>) {
    reflection.SetEnumValue(&to, &field, NumberOf(value));
  } else if constexpr (requires { value.has_value(); }) {
    Write(*value, to, field);
  } else if constexpr (requires { value.size(); }) {
    reflection.GetMutableRepeatedFieldRef<typename T::value_type>(&to, &field).CopyFrom(value);
  } else {
    const auto [first, second] = PairOf(value);
    Message& pair = *reflection.MutableMessage(&to, &field);
    Write(first, pair, *field.message_type()->field(0));
    Write(second, pair, *field.message_type()->field(1));
  }
}

bool Has(const Message& request, const ProtoField& proto) {
  const FieldDescriptor& field = proto.holder == nullptr ? *proto.field : *proto.holder;
  return field.is_repeated() || Of(request).HasField(request, &field);
}

// A bool, a policy, a mode and a plain number are said in any case, so that an answer shows them.
bool IsSaid(const pipeline::Field& row, const pipeline::PictureSpec& spec) {
  return IsSet(row, spec) || VisitField(row, spec, []<typename T>(const T&) {
           return std::is_arithmetic_v<T> || std::is_same_v<T, pipeline::BucketPolicy> ||
                  std::is_same_v<T, pipeline::ResizeMode>;
         });
}

void ReadFields(const Message& request, const std::vector<ProtoField>& fields,
                pipeline::PictureSpec& spec) {
  for (const ProtoField& proto : fields) {
    if (!Has(request, proto)) continue;
    const Message& from =
        proto.holder == nullptr ? request : Of(request).GetMessage(request, proto.holder);
    VisitField(*proto.row, spec, [&](auto& member) { Read(from, *proto.field, member); });
  }
}

void WriteFields(const pipeline::PictureSpec& spec, const std::vector<ProtoField>& fields,
                 Message& request) {
  for (const ProtoField& proto : fields) {
    if (!IsSaid(*proto.row, spec)) continue;
    Message& to =
        proto.holder == nullptr ? request : *Of(request).MutableMessage(&request, proto.holder);
    VisitField(*proto.row, spec, [&](const auto& member) { Write(member, to, *proto.field); });
  }
}

}  // namespace

void SetFields(const v1::GenerateRequest& request, pipeline::PictureSpec& spec) {
  ReadFields(request, ProtoFields(), spec);
}

void SetFields(const pipeline::PictureSpec& spec, v1::GenerateRequest& request) {
  WriteFields(spec, ProtoFields(), request);
}

void SetFields(const v1::GenerateVideoRequest& request, pipeline::PictureSpec& spec) {
  if (!spec.video) spec.video.emplace();
  ReadFields(request, VideoProtoFields(), spec);
}

void SetFields(const pipeline::PictureSpec& spec, v1::GenerateVideoRequest& request) {
  WriteFields(spec, VideoProtoFields(), request);
}

}  // namespace latentd::server::generation
