// Whole files of every published architecture: each tensor that a network wants is found, and no
// tensor is left over.
#include "core/weights/containers/single_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"
#include "tests/core/weights/containers/published_file.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::weights {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using testing::DescribeSources;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ListInFile;
using ::testing::Not;
using ::testing::Pair;
using testing::PublishedFile;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kPath[] = "model.safetensors";

const ListInFile kVae = {"vae", "first_stage_model.", "vae"};
const ListInFile kSd15Text = {"clip_l", "cond_stage_model.transformer.", "text_encoder"};
const ListInFile kSd2Text = {"open_clip_h", "cond_stage_model.model.", "text_encoder"};
const ListInFile kXlText = {"clip_l", "conditioner.embedders.0.transformer.", "text_encoder"};
const ListInFile kXlText2 = {"open_clip_g", "conditioner.embedders.1.model.", "text_encoder_2"};
const ListInFile kRefinerText = {"open_clip_g", "conditioner.embedders.0.model.", "text_encoder_2"};

ListInFile Unet(const std::string& list) { return {list, "model.diffusion_model.", "unet"}; }

std::vector<ListInFile> Xl(const std::string& unet) {
  return {Unet(unet), kVae, kXlText, kXlText2};
}
const std::vector<ListInFile> kSd15 = {Unet("unet_sd15"), kVae, kSd15Text};
const std::vector<ListInFile> kSd21 = {Unet("unet_sd21"), kVae, kSd2Text};
const std::vector<ListInFile> kRefiner = {Unet("unet_sdxl_refiner"), kVae, kRefinerText};

PublishedFile FileOf(const std::vector<ListInFile>& lists) {
  PublishedFile file(lists);
  // The one tensor that is read: of Stable Diffusion 2, under both of its names.
  for (const char* name :
       {"model.diffusion_model.output_blocks.11.1.transformer_blocks.0.norm1.bias",
        "unet.up_blocks.3.attentions.2.transformer_blocks.0.norm1.bias"}) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) continue;
    found->second.data = device::Buffer::Allocate(device::DType::kF32, {320});
  }
  return file;
}

absl::StatusOr<SingleFile> Recognize(const TensorMap& tensors, const Metadata& metadata = {}) {
  return RecognizeSingleFile(kPath, tensors, metadata);
}

json ConfigOf(const SingleFile& file, const std::string& component) {
  return json::parse(*file.parts.at(component).config);
}

// Expects that every component has exactly the tensors that its network wants.
void ExpectComplete(const PublishedFile& published, const SingleFile& file) {
  EXPECT_THAT(file.lacking, IsEmpty());
  EXPECT_THAT(file.notes, Not(Contains(HasSubstr("passed over"))));
  EXPECT_EQ(file.parts.size(), published.wanted.size());
  for (const auto& [component, wanted] : published.wanted) {
    ASSERT_TRUE(file.parts.contains(component)) << component;
    EXPECT_EQ(DescribeSources(file.parts.at(component).sources), wanted) << component;
  }
}

struct FileCase {
  std::string name;
  std::vector<ListInFile> lists;
  std::string pipeline_class;
};

class WholeFile : public ::testing::TestWithParam<FileCase> {};

TEST_P(WholeFile, HasEveryTensorThatItsNetworksWantAndNoOther) {
  const PublishedFile published = FileOf(GetParam().lists);
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  EXPECT_EQ(file.pipeline_class, GetParam().pipeline_class);
  ExpectComplete(published, file);
}

std::vector<ListInFile> InTodaysNames(std::vector<ListInFile> lists) {
  for (ListInFile& list : lists) {
    list.prefix = list.component + ".";
    list.has_todays_names = true;
  }
  return lists;
}

std::vector<ListInFile> WithPrefixes(std::vector<ListInFile> lists,
                                     const std::vector<std::string>& prefixes) {
  for (size_t i = 0; i < lists.size(); ++i) lists[i].prefix = prefixes[i];
  return lists;
}

constexpr char kEarly[] = "StableDiffusionPipeline";
constexpr char kBase[] = "StableDiffusionXLPipeline";
constexpr char kImageToImage[] = "StableDiffusionXLImg2ImgPipeline";

INSTANTIATE_TEST_SUITE_P(
    Published, WholeFile,
    ::testing::Values(
        FileCase{"sd15", kSd15, kEarly}, FileCase{"sd21", kSd21, kEarly},
        FileCase{"sdxl", Xl("unet_sdxl"), kBase}, FileCase{"sdxl_refiner", kRefiner, kImageToImage},
        FileCase{"ssd_1b", Xl("unet_ssd_1b"), kBase}, FileCase{"vega", Xl("unet_vega"), kBase},
        FileCase{"koala_700m", Xl("unet_koala_700m"), kBase},
        FileCase{"koala_1b", Xl("unet_koala_1b"), kBase},
        FileCase{"sd15_in_todays_names", InTodaysNames(kSd15), kEarly},
        FileCase{"sdxl_in_todays_names", InTodaysNames(Xl("unet_sdxl")), kBase},
        FileCase{"sd21_in_todays_names", InTodaysNames(kSd21), kEarly},
        FileCase{"refiner_in_todays_names", InTodaysNames(kRefiner), kImageToImage},
        FileCase{"sd21_as_sgm",
                 WithPrefixes(kSd21, {"model.diffusion_model.", "first_stage_model.",
                                      "conditioner.embedders.0.model."}),
                 kEarly},
        FileCase{"sdxl_as_comfyui",
                 WithPrefixes(Xl("unet_sdxl"),
                              {"diffusion_model.", "vae.", "clip_l.transformer.", "clip_g."}),
                 kBase},
        FileCase{"sd15_in_a_dump",
                 WithPrefixes(kSd15, {"state_dict.state_dict.model.diffusion_model.",
                                      "state_dict.state_dict.first_stage_model.",
                                      "state_dict.state_dict.cond_stage_model.transformer."}),
                 kEarly}),
    [](const auto& info) { return info.param.name; });

// Dumps hold some tensors twice.
TEST(SingleFileTest, TakesPlainNamesBeforeThoseOfADump) {
  PublishedFile published = FileOf(kSd15);
  const TensorMap plain = published.tensors;
  for (const auto& [name, tensor] : plain) published.AddTensor("state_dict." + name, {5});
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  EXPECT_EQ(file.parts.at("unet").sources.at("conv_out.bias").shape(), device::Shape{4});
}

TEST(SingleFileTest, ConfiguresSd15AsItIsPublished) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf(kSd15).tensors));
  const json unet = ConfigOf(file, "unet");
  EXPECT_EQ(unet["block_out_channels"], json({320, 640, 1280, 1280}));
  EXPECT_EQ(unet["attention_head_dim"], json({8, 8, 8, 8}));
  EXPECT_EQ(unet["cross_attention_dim"], 768);
  EXPECT_EQ(unet["sample_size"], json({64, 64}));
  EXPECT_EQ(unet["down_block_types"][3], "DownBlock2D");
  EXPECT_EQ(unet["up_block_types"][0], "UpBlock2D");
  EXPECT_EQ(unet["use_linear_projection"], false);
  EXPECT_EQ(unet["upcast_attention"], false);
  EXPECT_FALSE(unet.contains("addition_embed_type"));
  EXPECT_FALSE(unet.contains("reverse_transformer_layers_per_block"));
  const json text = ConfigOf(file, "text_encoder");
  EXPECT_EQ(text["num_hidden_layers"], 12);
  EXPECT_EQ(text["num_attention_heads"], 12);
  EXPECT_EQ(text["hidden_act"], "quick_gelu");
  EXPECT_EQ(text["eos_token_id"], 2);
  EXPECT_EQ(ConfigOf(file, "vae")["scaling_factor"], 0.18215);
  const json scheduler = json::parse(file.scheduler_config);
  EXPECT_EQ(scheduler["_class_name"], "PNDMScheduler");
  EXPECT_EQ(scheduler["prediction_type"], "epsilon");
  EXPECT_EQ(scheduler["steps_offset"], 1);
  EXPECT_EQ(scheduler["set_alpha_to_one"], false);
  EXPECT_THAT(file.tokenizers, ElementsAre(Pair("tokenizer", "<|endoftext|>")));
}

TEST(SingleFileTest, ConfiguresSd21AsItIsPublished) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf(kSd21).tensors));
  const json unet = ConfigOf(file, "unet");
  EXPECT_EQ(unet["attention_head_dim"], json({5, 10, 20, 20}));
  EXPECT_EQ(unet["cross_attention_dim"], 1024);
  EXPECT_EQ(unet["use_linear_projection"], true);
  EXPECT_EQ(unet["upcast_attention"], true);
  const json text = ConfigOf(file, "text_encoder");
  // The last of 24 is not used.
  EXPECT_EQ(text["num_hidden_layers"], 23);
  EXPECT_EQ(text["num_attention_heads"], 16);
  EXPECT_EQ(text["hidden_act"], "gelu");
  EXPECT_EQ(text["architectures"], json({"CLIPTextModel"}));
  EXPECT_THAT(file.tokenizers, ElementsAre(Pair("tokenizer", "!")));
}

TEST(SingleFileTest, ConfiguresSdxlAsItIsPublished) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf(Xl("unet_sdxl")).tensors));
  const json unet = ConfigOf(file, "unet");
  EXPECT_EQ(unet["block_out_channels"], json({320, 640, 1280}));
  EXPECT_EQ(unet["attention_head_dim"], json({5, 10, 20}));
  EXPECT_EQ(unet["transformer_layers_per_block"], json({1, 2, 10}));
  EXPECT_EQ(unet["addition_embed_type"], "text_time");
  EXPECT_EQ(unet["addition_time_embed_dim"], 256);
  EXPECT_EQ(unet["projection_class_embeddings_input_dim"], 2816);
  EXPECT_EQ(unet["sample_size"], json({128, 128}));
  EXPECT_FALSE(unet.contains("mid_block_type"));
  const json vae = ConfigOf(file, "vae");
  EXPECT_EQ(vae["scaling_factor"], 0.13025);
  EXPECT_EQ(vae["block_out_channels"], json({128, 256, 512, 512}));
  EXPECT_EQ(vae["layers_per_block"], 2);
  EXPECT_FALSE(vae.contains("latents_mean"));
  const json text = ConfigOf(file, "text_encoder_2");
  EXPECT_EQ(text["architectures"], json({"CLIPTextModelWithProjection"}));
  EXPECT_EQ(text["projection_dim"], 1280);
  EXPECT_EQ(text["hidden_act"], "gelu");
  const json scheduler = json::parse(file.scheduler_config);
  EXPECT_EQ(scheduler["_class_name"], "EulerDiscreteScheduler");
  EXPECT_EQ(scheduler["timestep_spacing"], "leading");
  EXPECT_TRUE(file.force_zeros_for_empty_prompt);
  EXPECT_FALSE(file.requires_aesthetics_score);
  EXPECT_THAT(file.tokenizers,
              ElementsAre(Pair("tokenizer", "<|endoftext|>"), Pair("tokenizer_2", "!")));
}

// diffusers#8900: base's configuration was taken for it.
TEST(SingleFileTest, ConfiguresTheRefinerAsItIsPublished) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf(kRefiner).tensors));
  const json unet = ConfigOf(file, "unet");
  EXPECT_EQ(unet["block_out_channels"], json({384, 768, 1536, 1536}));
  EXPECT_EQ(unet["attention_head_dim"], json({6, 12, 24, 24}));
  EXPECT_EQ(unet["transformer_layers_per_block"], json({1, 4, 4, 4}));
  EXPECT_EQ(unet["projection_class_embeddings_input_dim"], 2560);
  EXPECT_EQ(unet["addition_time_embed_dim"], 256);
  EXPECT_FALSE(file.force_zeros_for_empty_prompt);
  EXPECT_TRUE(file.requires_aesthetics_score);
  EXPECT_THAT(file.tokenizers, ElementsAre(Pair("tokenizer_2", "!")));
}

// diffusers#6689: SDXL's configuration was taken for it, and a tensor of its middle was missing.
TEST(SingleFileTest, ConfiguresDistilledUnetsByTheirShapes) {
  ASSERT_OK_AND_ASSIGN(const SingleFile ssd, Recognize(FileOf(Xl("unet_ssd_1b")).tensors));
  const json unet = ConfigOf(ssd, "unet");
  EXPECT_EQ(unet["transformer_layers_per_block"], json({1, 2, 4}));
  EXPECT_EQ(unet["reverse_transformer_layers_per_block"], json({{4, 4, 10}, {2, 1, 1}, 1}));
  EXPECT_EQ(unet["mid_block_type"], "UNetMidBlock2D");
  ASSERT_OK_AND_ASSIGN(const SingleFile koala, Recognize(FileOf(Xl("unet_koala_700m")).tensors));
  const json small = ConfigOf(koala, "unet");
  EXPECT_EQ(small["layers_per_block"], json({1, 1, 1}));
  EXPECT_EQ(small["transformer_layers_per_block"], json({1, 2, 5}));
  EXPECT_TRUE(small.contains("mid_block_type") && small["mid_block_type"].is_null());
}

// Files of merges and of training, whose extra tensors no network reads.
TEST(SingleFileTest, PassesOverWithoutAWordWhatNoNetworkReads) {
  PublishedFile published = FileOf(Xl("unet_sdxl"));
  for (const char* name :
       {"betas", "alphas_cumprod", "alphas_cumprod_prev", "sqrt_one_minus_alphas_cumprod",
        "log_one_minus_alphas_cumprod", "sqrt_recip_alphas_cumprod", "sqrt_recipm1_alphas_cumprod",
        "posterior_variance", "denoiser.sigmas", "model_ema.decay", "model_ema.num_updates",
        "global_step", "loss.logvar", "first_stage_model.loss.perceptual_loss.lin0.model.1.weight",
        "embedding_manager.embedder.transformer.text_model.embeddings.position_ids",
        "conditioner.embedders.0.transformer.text_model.embeddings.position_ids",
        "conditioner.embedders.0.transformer.text_projection.weight",
        "conditioner.embedders.0.logit_scale", "conditioner.embedders.1.model.attn_mask"}) {
    published.AddTensor(name, {3});
  }
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  ExpectComplete(published, file);
}

// AUTOMATIC1111#7450: positions were cut to 75 in merges that store them as floats.
TEST(SingleFileTest, NeverReadsPositionIds) {
  PublishedFile published = FileOf(kSd15);
  published.AddTensor("cond_stage_model.transformer.text_model.embeddings.position_ids", {1, 77});
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  for (const auto& [name, source] : file.parts.at("text_encoder").sources) {
    EXPECT_THAT(name, Not(HasSubstr("position_ids")));
  }
}

TEST(SingleFileTest, SaysThatAFileAlsoHoldsAverages) {
  PublishedFile published = FileOf(kSd15);
  for (int i = 0; i < 200; ++i)
    published.AddTensor(absl::StrCat("model_ema.diffusion_model", i), {1});
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  EXPECT_THAT(file.notes, Contains(HasSubstr("also holds EMA weights (200 tensors)")));
}

TEST(SingleFileTest, NamesTensorsOfNoComponent) {
  PublishedFile published = FileOf(kSd15);
  published.AddTensor("safety_checker.concept_embeds", {17, 768});
  published.AddTensor("another", {1});
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  EXPECT_THAT(file.notes, Contains(AllOf(HasSubstr("2 tensors"), HasSubstr("passed over"),
                                         HasSubstr("another, safety_checker.concept_embeds"))));
}

// Old dumps of CLIP have no "text_model." in front, and diffusers' old converter has it.
TEST(SingleFileTest, ReadsClipWithoutItsWrapper) {
  PublishedFile published = FileOf({Unet("unet_sd15"), kVae});
  for (const testing::PublishedTensor& tensor : testing::ReadPublishedTensors("clip_l")) {
    const std::string name = tensor.stored.substr(std::string("text_model.").size());
    published.AddTensor("cond_stage_model.transformer." + name, tensor.shape);
    published.wanted["text_encoder"][tensor.stored] = {"cond_stage_model.transformer." + name, "",
                                                       tensor.shape};
  }
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  ExpectComplete(published, file);
}

// A converter that squeezed 1 x 1 convolutions, or made them of linear layers.
TEST(SingleFileTest, ReadsProjectionsStoredAsLayersOrConvolutions) {
  PublishedFile published = FileOf(Xl("unet_sdxl"));
  const std::string name = "model.diffusion_model.input_blocks.4.1.proj_out.weight";
  published.AddTensor(name, {640, 640, 1, 1});
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  ExpectComplete(published, file);
}

// diffusers#6934, #5219: made by an old converter.
TEST(SingleFileTest, LacksTheSecondTextEncoderWithoutItsProjection) {
  PublishedFile published = FileOf(Xl("unet_sdxl"));
  published.tensors.erase("conditioner.embedders.1.model.text_projection");
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
  EXPECT_THAT(file.lacking, ElementsAre("text_encoder_2"));
  EXPECT_THAT(file.notes, Contains(HasSubstr("no conditioner.embedders.1.model.text_projection")));
  EXPECT_FALSE(file.parts.contains("text_encoder_2"));
}

// Stability-AI/generative-models#111: a projection that was not transposed fits every shape.
TEST(SingleFileTest, TransposesTheProjectionByItsName) {
  PublishedFile published = FileOf(Xl("unet_sdxl"));
  const std::string name = "conditioner.embedders.1.model.text_projection";
  ASSERT_OK_AND_ASSIGN(const SingleFile bare, Recognize(published.tensors));
  const auto how = [](const SingleFile& file) {
    return testing::HowMade(file.parts.at("text_encoder_2").sources.at("text_projection.weight"));
  };
  EXPECT_EQ(how(bare), "T");
  published.tensors.erase(name);
  published.AddTensor(name + ".weight", {1280, 1280});
  ASSERT_OK_AND_ASSIGN(const SingleFile layer, Recognize(published.tensors));
  EXPECT_EQ(how(layer), "");
}

TEST(SingleFileTest, ListsAllComponentsThatAreNotThere) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf({Unet("unet_sdxl")}).tensors));
  EXPECT_THAT(file.lacking, ElementsAre("text_encoder", "text_encoder_2", "vae"));
  EXPECT_EQ(file.pipeline_class, kBase);
  PublishedFile half = FileOf({Unet("unet_sd15"), kVae, kSd15Text});
  for (auto i = half.tensors.begin(); i != half.tensors.end();) {
    const auto next = std::next(i);
    if (i->first.find("first_stage_model.encoder.") == 0) half.tensors.erase(i);
    i = next;
  }
  ASSERT_OK_AND_ASSIGN(const SingleFile decoder, Recognize(half.tensors));
  EXPECT_THAT(decoder.lacking, ElementsAre("vae"));
  EXPECT_THAT(decoder.notes, Contains(HasSubstr("one half of a VAE")));
}

// vladmandic/sdnext#2286: a refiner has no first text encoder, and needs none.
TEST(SingleFileTest, MissesNoFirstTextEncoderInARefiner) {
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(FileOf(kRefiner).tensors));
  EXPECT_THAT(file.lacking, IsEmpty());
  EXPECT_FALSE(file.parts.contains("text_encoder"));
}

// diffusers#8228: trainers name the encoder as diffusers' folder does, or as kohya's scripts.
TEST(SingleFileTest, KnowsTextEncodersByTheNamesOfTrainers) {
  for (const char* prefix : {"text_encoder.", "te.", "te1.", "clip_l.transformer.",
                             "text_encoders.clip_l.transformer."}) {
    const PublishedFile published =
        FileOf({Unet("unet_sd15"), kVae, {"clip_l", prefix, "text_encoder"}});
    ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(published.tensors));
    ExpectComplete(published, file);
  }
}

// A small XL checkpoint, with names of latent diffusion.
TensorMap SmallXl() {
  const auto text =
      ReadFile(testing::SourcePath("tests/fuzz/seeds/tensor_names/base.txt"), 1 << 20);
  EXPECT_OK(text);
  PublishedFile file({});
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 2) file.AddTensor(words[1], testing::ParsePublishedShape(words[0]));
  }
  return file.tensors;
}

// Sizes that are no published ones are judged by the text encoders beside them.
TEST(SingleFileTest, TellsAFamilyOfOtherSizesByItsTextEncoders) {
  TensorMap tensors = SmallXl();
  ASSERT_OK_AND_ASSIGN(const SingleFile base, Recognize(tensors));
  EXPECT_EQ(base.pipeline_class, kBase);
  EXPECT_THAT(base.lacking, IsEmpty());
  const json unet = ConfigOf(base, "unet");
  EXPECT_EQ(unet["attention_head_dim"], json({1, 2}));
  // The pooled text is 128 of 320 added features, six numbers are the rest.
  EXPECT_EQ(unet["addition_time_embed_dim"], 32);
  EXPECT_EQ(json::parse(base.scheduler_config)["prediction_type"], "v_prediction");
  absl::erase_if(tensors,
                 [](const auto& entry) { return absl::StartsWith(entry.first, "conditioner."); });
  EXPECT_THAT(Recognize(tensors), StatusIs(kInvalid, HasSubstr("192 features of text and 320")));
}

// deploy/demo-model has heads of 32.
TEST(SingleFileTest, LeavesHeadsThatNoTensorTellsToAnotherCheckpoint) {
  TensorMap tensors = SmallXl();
  for (auto& [name, tensor] : tensors) {
    if (!absl::StartsWith(name, "conditioner.embedders.0.")) continue;
    std::vector<int64_t> dims = tensor.data.shape().dims();
    for (int64_t& dim : dims) dim = dim == 64 ? 96 : dim;
    tensor = testing::NamedTensor(name, device::Shape(dims));
  }
  for (auto& [name, tensor] : tensors) {
    std::vector<int64_t> dims = tensor.data.shape().dims();
    if (dims.size() != 2 || dims.back() != 192) continue;
    dims.back() = 224;
    tensor = testing::NamedTensor(name, device::Shape(dims));
  }
  ASSERT_OK_AND_ASSIGN(const SingleFile file, Recognize(tensors));
  EXPECT_OK(file.parts.at("unet").config);
  EXPECT_THAT(file.parts.at("text_encoder").config,
              StatusIs(kInvalid, AllOf(HasSubstr(kPath), HasSubstr("96 features of CLIP-L"))));
  EXPECT_THAT(file.parts.at("text_encoder").sources, Not(IsEmpty()));
}

TEST(SingleFileTest, RefusesAddedFeaturesThatAreNoWholeNumbers) {
  PublishedFile published = FileOf(Xl("unet_sdxl"));
  const std::string text = "conditioner.embedders.1.model.text_projection";
  published.AddTensor(text, {1280, 1281});
  EXPECT_THAT(Recognize(published.tensors),
              StatusIs(kInvalid, AllOf(HasSubstr("2816 added features"), HasSubstr("1281"))));
}

TEST(SingleFileTest, RefusesConditionsOfNoFamily) {
  PublishedFile published = FileOf({Unet("unet_sd15")});
  for (auto& [name, tensor] : published.tensors) {
    if (name.find("attn2.to_k.weight") == name.npos &&
        name.find("attn2.to_v.weight") == name.npos) {
      continue;
    }
    tensor.data = device::ConstBuffer::Wrap(nullptr, device::DType::kF16,
                                            {tensor.data.shape()[0], 640}, nullptr);
  }
  EXPECT_THAT(Recognize(published.tensors),
              StatusIs(kInvalid, AllOf(HasSubstr("640 features of text and 0 added ones"),
                                       HasSubstr("2 (1024 and 0)"))));
}

// Every so manieth tensor of a file, by name. `stride` is odd, so that weights and biases of all
// kinds of layers come.
std::vector<std::string> SomeNames(const TensorMap& tensors, size_t stride) {
  std::vector<std::string> names, some;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i < names.size(); i += stride) some.push_back(names[i]);
  return some;
}

// Tensors that no network reads, and a projection whose absence is told otherwise.
bool MayBeMissing(const std::string& name) {
  return name.find("logit_scale") != name.npos || name.find("text_projection") != name.npos ||
         name.find("resblocks.23.") != name.npos;
}

class EditedFile : public ::testing::TestWithParam<FileCase> {};

TEST_P(EditedFile, NamesTheTensorThatIsMissing) {
  PublishedFile published = FileOf(GetParam().lists);
  for (const std::string& name : SomeNames(published.tensors, 37)) {
    if (MayBeMissing(name)) continue;
    const StoredTensor tensor = published.tensors.at(name);
    published.tensors.erase(name);
    EXPECT_THAT(Recognize(published.tensors),
                StatusIs(kInvalid, AllOf(HasSubstr("missing"), HasSubstr(name))));
    published.tensors.emplace(name, tensor);
  }
}

TEST_P(EditedFile, NamesTheTensorThatHasAnotherShape) {
  PublishedFile published = FileOf(GetParam().lists);
  for (const std::string& name : SomeNames(published.tensors, 41)) {
    const StoredTensor tensor = published.tensors.at(name);
    if (MayBeMissing(name) || tensor.data.shape().rank() == 0) continue;
    std::vector<int64_t> dims = tensor.data.shape().dims();
    ++dims.back();
    const std::string shape = device::Shape(dims).ToString();
    published.AddTensor(name, device::Shape(dims));
    EXPECT_THAT(Recognize(published.tensors),
                StatusIs(kInvalid, HasSubstr(absl::StrCat(name, " is ", shape))));
    published.tensors.insert_or_assign(name, tensor);
  }
}

TEST_P(EditedFile, NamesTheTensorThatIsTooMany) {
  PublishedFile published = FileOf(GetParam().lists);
  for (const std::string& name : SomeNames(published.tensors, 101)) {
    if (MayBeMissing(name)) continue;
    const std::string extra = name.substr(0, name.rfind('.')) + ".another";
    published.AddTensor(extra, {1});
    EXPECT_THAT(Recognize(published.tensors),
                StatusIs(kInvalid, AllOf(HasSubstr("no place for"), HasSubstr(extra))));
    published.tensors.erase(extra);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Published, EditedFile,
    ::testing::Values(FileCase{"sd15", kSd15, kEarly}, FileCase{"sd21", kSd21, kEarly},
                      FileCase{"sdxl", Xl("unet_sdxl"), kBase},
                      FileCase{"sd15_in_todays_names", InTodaysNames(kSd15), kEarly}),
    [](const auto& info) { return info.param.name; });

// Shapes as only a made-up header has them.
TEST(SingleFileTest, RefusesShapesThatNoNetworkHas) {
  for (const device::Shape& shape :
       {device::Shape{}, device::Shape{0}, device::Shape{0, 4, 3, 3}, device::Shape{1},
        device::Shape{int64_t{1} << 40, 4, 1, 1}, device::Shape{320, int64_t{1} << 50}}) {
    for (const char* name :
         {"model.diffusion_model.input_blocks.0.0.weight",
          "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight",
          "first_stage_model.decoder.conv_in.weight",
          "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight"}) {
      PublishedFile published = FileOf(kSd15);
      published.AddTensor(name, shape);
      EXPECT_THAT(Recognize(published.tensors).status().code(), kInvalid) << name;
    }
  }
}

TEST(SingleFileTest, RefusesBlocksThatNoUnetHas) {
  const auto refused = [](const std::string& erased, const std::string& message) {
    PublishedFile published = FileOf({Unet("unet_sd15")});
    std::vector<std::string> names;
    for (const auto& [name, tensor] : published.tensors) {
      if (name.find("model.diffusion_model." + erased) == 0) names.push_back(name);
    }
    ASSERT_FALSE(names.empty()) << erased;
    for (const std::string& name : names) published.tensors.erase(name);
    EXPECT_THAT(Recognize(published.tensors), StatusIs(kInvalid, HasSubstr(message)));
  };
  refused("output_blocks.", "4 blocks on the way down and 0 on the way up");
  refused("output_blocks.11.", "block 0 has 2 layers on the way down and 2 on the way up");
  refused("input_blocks.2.1.", "block 0 on the way down has attention in 1 of 2 layers");
  refused("middle_block.1.", "two residual blocks and no attention between");
  refused("middle_block.2.", "no residual block behind its attention");
  refused("input_blocks.11.", "block 3 has 1 layers on the way down");
}

}  // namespace
}  // namespace latentd::weights
