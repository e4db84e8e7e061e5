#include "client/request_options.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/files.h"

namespace latentd::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Apply = std::function<absl::Status(const std::string&)>;

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
    default:
      message.GetReflection()->SetString(&message, &field, text);
      return absl::OkStatus();
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

absl::string_view PairText(const google::protobuf::Descriptor* type) {
  if (type == v1::Size::descriptor()) return "WIDTHxHEIGHT, such as 1024x768";
  if (type == v1::Offset::descriptor()) return "TOP,LEFT, such as 0,16";
  return "START,STOP, such as 0.2,0.8";
}

// Two numbers, as "512x384" or "0,16", into a Size, an Offset or a GuidanceInterval.
absl::Status SetPair(Message& message, const FieldDescriptor& field, const std::string& text) {
  const google::protobuf::Descriptor* type = field.message_type();
  const std::vector<std::string> parts =
      absl::StrSplit(text, type == v1::Size::descriptor() ? 'x' : ',');
  Message& pair = *message.GetReflection()->MutableMessage(&message, &field);
  for (int i = 0; i < 2; ++i) {
    if (parts.size() != 2 || !SetScalar(pair, *type->field(i), parts[i]).ok()) {
      return Wrong(PairText(type));
    }
  }
  return absl::OkStatus();
}

// How the text of an option becomes the field of that name.
Apply Field(Message& message, absl::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  return [&message, field](const std::string& text) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
      return SetPair(message, *field, text);
    return field->is_repeated() ? SetList(message, *field, text) : SetScalar(message, *field, text);
  };
}

Option Row(Message& message, const std::string& name, const std::string& value,
           const std::string& help) {
  return {name, value, help, Field(message, absl::StrReplaceAll(name, {{"-", "_"}}))};
}

Option ModelOption(v1::GenerateRequest& request) {
  return ChoiceOption("model", "NAME", "base (default), or refiner: image-to-image with --image",
                      {"base", "refiner"}, [&request](const std::string& name) {
                        request.set_model(name == "base" ? v1::MODEL_BASE : v1::MODEL_REFINER);
                      });
}

Option BucketPolicyOption(v1::GenerateRequest& request) {
  const auto set = [&request](const std::string& name) {
    v1::BucketPolicy policy = v1::BUCKET_POLICY_UNSPECIFIED;
    v1::BucketPolicy_Parse(absl::StrCat("BUCKET_POLICY_", absl::AsciiStrToUpper(name)), &policy);
    request.set_bucket_policy(policy);
  };
  return ChoiceOption("bucket-policy", "NAME",
                      "exact (default): a size that is ready; snap: cut out of a larger one;\n"
                      "cold_ok: compile for any size, which takes its time\n"
                      "and a latentd with --allow-cold-requests",
                      {"exact", "snap", "cold_ok"}, set);
}

Option FileOption(const char* name, const char* help, std::function<void(std::string)> set) {
  return {name, "FILE", help, [set = std::move(set)](const std::string& path) {
            absl::StatusOr<std::string> bytes = ReadFile(path);
            if (!bytes.ok()) return bytes.status();
            set(*std::move(bytes));
            return absl::OkStatus();
          }};
}

Option PreviewsOption(v1::GenerateRequest& request) {
  return {"previews", "N",
          "show how it comes along: a small JPEG beside the picture's file,\n"
          "FILE.preview.jpg, written again after every N steps",
          [&request](const std::string& text) {
            v1::Previews& previews = *request.mutable_previews();
            return SetInt32(previews, *previews.GetDescriptor()->FindFieldByName("every_n_steps"),
                            text);
          }};
}

Option ImageOption(v1::GenerateRequest& request) {
  return FileOption("image", "start from this picture: PNG, JPEG or WebP; - is standard input",
                    [&](std::string bytes) { request.set_image(std::move(bytes)); });
}

Option LatentsOption(v1::GenerateRequest& request) {
  return FileOption("latents",
                    "start from this noise instead of the seed's: a safetensors file with a\n"
                    "tensor \"latents\"; - is standard input",
                    [&](std::string bytes) { request.set_latents(std::move(bytes)); });
}

OptionGroup Picture(v1::GenerateRequest& r) {
  return {
      "The picture",
      {Row(r, "negative-prompt", "TEXT", "what not to draw"),
       Row(r, "prompt-2", "TEXT", "another prompt for the second text encoder"),
       Row(r, "negative-prompt-2", "TEXT", "the same, for what not to draw"),
       Row(r, "width", "N", "pixels, a multiple of 8 (default: `latent capabilities` says)"),
       Row(r, "height", "N", "the same"), BucketPolicyOption(r),
       Row(r, "num-inference-steps", "N", "denoising steps (default 50)"),
       Row(r, "guidance-scale", "X", "how strongly the prompt guides (default 5; 1: not at all)"),
       WithLetter('s', Row(r, "seed", "N", "same seed, same picture (default: random, and said)")),
       Row(r, "seeds", "N,N,...", "a picture for each of these"), LatentsOption(r),
       WithLetter('n', Row(r, "num-images-per-prompt", "N",
                           "pictures, from seed, seed + 1, ... (default 1)")),
       Row(r, "batch-invariant", "",
           "the same bytes, whatever the server draws beside it (where the\n"
           "backend cannot promise that, it shares no step, and waits longer)"),
       PreviewsOption(r)}};
}

OptionGroup Refining(v1::GenerateRequest& r) {
  return {
      "Refiner and image-to-image",
      {Row(r, "refine", "", "the refiner finishes what the base began"),
       Row(r, "denoising-end", "X", "where the base stops, at most 1 (default 0.8 with --refine)"),
       ImageOption(r),
       Row(r, "strength", "X", "how much of --image to redo, at most 1 (default 0.3)"),
       Row(r, "denoising-start", "X", "where to begin with --image, instead of --strength"),
       ModelOption(r)}};
}

OptionGroup NoiseScheduler(v1::GenerateRequest& r) {
  return {"Noise scheduler (default: the server's)",
          {Row(r, "scheduler", "NAME",
               "euler, euler_a, ddim, dpmpp_2m, heun, lcm, ...\n"
               "(`latent capabilities` lists them, and says the default)"),
           Row(r, "timestep-spacing", "NAME", "leading, linspace, trailing"),
           Row(r, "prediction-type", "NAME", "epsilon, v_prediction, sample"),
           Row(r, "algorithm-type", "NAME", "dpmsolver++, sde-dpmsolver++"),
           Row(r, "use-karras-sigmas", "", "noise levels after Karras and others (or =false)"),
           Row(r, "rescale-betas-zero-snr", "", "the last noise level is pure noise (or =false)"),
           Row(r, "timesteps", "N,N,...", "a schedule of one's own"),
           Row(r, "sigmas", "X,X,...", "the same, as noise levels; one more than steps"),
           Row(r, "eta", "X", "noise per step, 0 to 1; DDIM only")}};
}

OptionGroup FineTuning(v1::GenerateRequest& r) {
  return {
      "Fine tuning",
      {Row(r, "guidance-rescale", "X", "0 to 1 (default 0)"),
       Row(r, "guidance-interval", "START,STOP",
           "the part of the steps that is guided; the others cost half\n(default 0,1: all)"),
       Row(r, "clip-skip", "N", "leave out this many of the text encoders' last layers"),
       Row(r, "original-size", "WxH", "SDXL's micro-conditioning (default: the size)"),
       Row(r, "target-size", "WxH", "the same: the size that it is drawn for"),
       Row(r, "crops-coords-top-left", "TOP,LEFT", "the same: where it is cut out (default 0,0)"),
       Row(r, "negative-original-size", "WxH", "the same, for what not to draw"),
       Row(r, "negative-target-size", "WxH", "the same, for what not to draw"),
       Row(r, "negative-crops-coords-top-left", "TOP,LEFT", "the same, for what not to draw"),
       Row(r, "aesthetic-score", "X", "the refiner's (default 6)"),
       Row(r, "negative-aesthetic-score", "X", "the same, for what not to draw (default 2.5)"),
       Row(r, "priority", "N",
           "how urgent it is: each more counts as double (default 0; `latent\n"
           "capabilities` says how much is allowed)"),
       Row(r, "request-id", "ID", "to find the request in the server's log"),
       Row(r, "resumable", "",
           "when the connection breaks the server goes on, and latent takes the\n"
           "rest; a latent that is killed leaves it at work for a minute")}};
}

}  // namespace

std::vector<OptionGroup> RequestOptions(v1::GenerateRequest& request) {
  return {Picture(request), Refining(request), NoiseScheduler(request), FineTuning(request)};
}

std::string OptionSpelling(const std::string& field) {
  if (field == "prompt") return "PROMPT";
  if (absl::StartsWith(field, "previews")) return "--previews";
  if (field == "id" || absl::StartsWith(field, "selector.ids")) return "ID";
  if (absl::StartsWith(field, "selector.components")) return "--component";
  if (absl::StartsWith(field, "selector.buckets")) return "--bucket";
  const std::string last = field.substr(field.rfind('.') + 1);  // "output.quality" is --quality
  return absl::StrCat("--", absl::StrReplaceAll(last, {{"_", "-"}}));
}

}  // namespace latentd::client
