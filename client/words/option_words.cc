#include "client/words/option_words.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "latent/v1/graph_cache.pb.h"
#include "latent/v1/image_generation.pb.h"
#include "latent/v1/video_generation.pb.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::EnumDescriptor;

// A path is one word.
bool IsPartOfWord(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/';
}

// The value of an enum, as it is typed.
std::string ValueText(absl::string_view word) {
  for (const EnumDescriptor* type :
       {v1::Format_descriptor(), v1::BucketPolicy_descriptor(), v1::PromptSyntax_descriptor(),
        v1::LongPrompt_descriptor(), v1::GuidanceStop_descriptor(), v1::CacheTier_descriptor(),
        v1::VideoFormat_descriptor(), v1::ResizeMode_descriptor()}) {
    const auto* value = type->FindValueByName(std::string(word));
    if (value != nullptr) return ChoiceOf(*value);
  }
  return std::string(word);
}

std::string WordText(absl::string_view word) {
  if (!absl::StrContains(word, '_')) return std::string(word);
  const std::string name(word);
  const auto has_field = [&](const google::protobuf::Descriptor* type) {
    return type->FindFieldByName(name) != nullptr;
  };
  const bool is_field =
      has_field(v1::GenerateRequest::descriptor()) || has_field(v1::Output::descriptor()) ||
      has_field(v1::GenerateVideoRequest::descriptor()) || has_field(v1::VideoOutput::descriptor());
  if (name == "mask_image") return "--mask";
  if (is_field) return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
  return ValueText(word);
}

}  // namespace

std::string ChoiceOf(const google::protobuf::EnumValueDescriptor& value) {
  if (value.full_name() == "latent.v1.FORMAT_RAW_RGB8") return "raw";
  const absl::string_view prefix = absl::StripSuffix(value.type()->value(0)->name(), "UNSPECIFIED");
  return absl::AsciiStrToLower(absl::StripPrefix(value.name(), prefix));
}

std::vector<std::string> ChoicesOf(const EnumDescriptor& type) {
  std::vector<std::string> choices;
  for (int i = 1; i < type.value_count(); ++i) choices.push_back(ChoiceOf(*type.value(i)));
  return choices;
}

std::string WithOptionNames(absl::string_view text) {
  std::string spelled;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && IsPartOfWord(text[end])) ++end;
    absl::StrAppend(&spelled, WordText(text.substr(begin, end - begin)));
    if (end < text.size()) spelled += text[end++];
    begin = end;
  }
  return spelled;
}

}  // namespace latentd::client
