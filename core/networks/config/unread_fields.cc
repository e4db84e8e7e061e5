#include "core/networks/config/unread_fields.h"

namespace latentd::networks {
namespace {

// Says that tensors stand for others than they hold.
constexpr absl::string_view kQuantization = "quantization_config";

constexpr absl::string_view kUnetMustBeOff[] = {
    "class_embed_type",     "class_embeddings_concat", "dual_cross_attention", "encoder_hid_dim",
    "encoder_hid_dim_type", "num_attention_heads",     "num_class_embeds",     kQuantization};

// All but dropout are read only by block types and embeddings that are refused.
constexpr absl::string_view kUnetHarmless[] = {"dropout",
                                               "addition_embed_type_num_heads",
                                               "cross_attention_norm",
                                               "mid_block_only_cross_attention",
                                               "resnet_out_scale_factor",
                                               "resnet_skip_time_act"};

constexpr absl::string_view kAutoencoderMustBeOff[] = {kQuantization};

// block_out_channels repeats decoder_block_out_channels; magnitude and shift are for latents stored
// as bytes.
constexpr absl::string_view kTinyHarmless[] = {"block_out_channels", "force_upcast",
                                               "latent_magnitude", "latent_shift"};

constexpr absl::string_view kVideoMustBeOff[] = {kQuantization};

// The size that it was trained at, in pixels, which the UNet's says in latents.
constexpr absl::string_view kTemporalHarmless[] = {"sample_size"};

constexpr absl::string_view kClipMustBeOff[] = {"pruned_heads", kQuantization};

constexpr absl::string_view kClipHarmless[] = {
    // Written by transformers into every model's config, and not read by CLIP's text models.
    "add_cross_attention", "attention_dropout", "bos_token_id", "chunk_size_feed_forward",
    "cross_attention_hidden_size", "decoder_start_token_id", "dropout", "dtype", "finetuning_task",
    "gradient_checkpointing", "id2label", "initializer_factor", "initializer_range", "is_decoder",
    "is_encoder_decoder", "label2id", "output_attentions", "output_hidden_states", "pad_token_id",
    "prefix", "problem_type", "return_dict", "sep_token_id", "task_specific_params",
    "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "torch_dtype", "torchscript",
    "transformers_version", "use_bfloat16", "use_cache",
    // For drawing the next token of a generating model.
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens",
    "temperature", "tf_legacy_loss", "top_k", "top_p", "typical_p"};

}  // namespace

const UnreadFields kUnreadByUnet2dCondition = {kUnetMustBeOff, kUnetHarmless};
const UnreadFields kUnreadByAutoencoderKl = {kAutoencoderMustBeOff, {}};
const UnreadFields kUnreadByAutoencoderTiny = {kAutoencoderMustBeOff, kTinyHarmless};
const UnreadFields kUnreadByClipText = {kClipMustBeOff, kClipHarmless};
const UnreadFields kUnreadByClipVision = {kClipMustBeOff, kClipHarmless};
const UnreadFields kUnreadByUnetSpatioTemporal = {kVideoMustBeOff, {}};
const UnreadFields kUnreadByAutoencoderTemporal = {kVideoMustBeOff, kTemporalHarmless};

}  // namespace latentd::networks
