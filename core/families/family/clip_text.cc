#include "core/families/family/clip_text.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/networks/clip_text.h"
#include "core/prompts/blends.h"
#include "core/prompts/chunks.h"
#include "core/prompts/parse.h"

namespace latentd::families {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;
using pipeline::PictureSpec;
using prompts::Syntax;

// The one at index `layer` of states [1, tokens, features].
Value SelectState(GraphBuilder& b, const std::vector<Value>& states, Value layer) {
  const Shape shape = b.shape(states.front());
  std::vector<Value> entries;
  entries.reserve(states.size());
  for (const Value state : states) entries.push_back(b.Reshape(state, {1, 1, shape.elements()}));
  return b.Reshape(b.Select(b.Concat(entries, 1), layer), shape);
}

std::string EmphasisInput(absl::string_view component) {
  return absl::StrCat("emphasis.", component);
}

constexpr char kInputIds[] = "input_ids";

// Host inputs for vectors in the place of tokens'.
constexpr char kGivenVectors[] = "given_vectors", kVectorRows[] = "vector_rows";

// Vectors of words for one encoder, numbered one after the other behind the vocabulary.
class WordVectors {
 public:
  WordVectors(const TextEncoder& encoder, size_t index, const pipeline::SharedWords& words)
      : first_id_(encoder.config.vocab_size) {
    if (words == nullptr) return;
    for (const pipeline::Word& word : *words) {
      const pipeline::EmbeddingVectors& vectors = word.vectors[index];
      prompts::SpecialWord& special = special_.emplace_back();
      special.text = word.text;
      for (int64_t i = 0; i < vectors.count(); ++i) {
        special.ids.push_back(first_id_ + static_cast<int64_t>(rows_.size()));
        rows_.push_back(vectors.row(i));
      }
    }
  }

  absl::Span<const prompts::SpecialWord> special() const { return special_; }
  bool IsOne(int64_t id) const { return id >= first_id_; }
  // REQUIRES: IsOne.
  absl::Span<const float> at(int64_t id) const {
    return rows_[static_cast<size_t>(id - first_id_)];
  }

 private:
  const int64_t first_id_;
  std::vector<prompts::SpecialWord> special_;
  std::vector<absl::Span<const float>> rows_;
};

// Each position reads its token's vector.
std::vector<int64_t> OwnRows(size_t tokens) {
  std::vector<int64_t> rows(tokens);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

// Gives positions of words vectors; their tokens become others of the vocabulary, which are not
// read.
void AddVectors(const TextEncoder& encoder, const WordVectors& words, std::vector<int64_t>& ids,
                TextRun& run) {
  const auto features = static_cast<size_t>(encoder.config.hidden_size);
  std::vector<float> given(ids.size() * features);
  std::vector<int64_t> rows = OwnRows(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!words.IsOne(ids[i])) continue;
    absl::c_copy(words.at(ids[i]), given.begin() + static_cast<ptrdiff_t>(i * features));
    rows[i] = static_cast<int64_t>(ids.size() + i);
    ids[i] = 0;
  }
  run.push_back({kGivenVectors, std::move(given)});
  run.push_back({kVectorRows, std::move(rows)});
}

// A model whose configuration pools at the largest id pools at a word that is in the prompt, as
// transformers does with tokens that are added to it.
TextRun RunOf(const TextEncoder& encoder, std::vector<int64_t> ids, int64_t layer,
              const WordVectors& words) {
  const int64_t pooled = networks::EosPosition(encoder.config, ids);
  TextRun given;
  if (absl::c_any_of(ids, [&](int64_t id) { return words.IsOne(id); })) {
    AddVectors(encoder, words, ids, given);
  }
  TextRun run = {{kInputIds, std::move(ids)},
                 {"pooled_position", std::vector<int64_t>{pooled}},
                 {"layer", std::vector<int64_t>{layer}}};
  absl::c_move(given, std::back_inserter(run));
  return run;
}

bool HasVectors(const TextRun& run) {
  return absl::c_any_of(run, [](const HostInput& input) { return input.name == kVectorRows; });
}

void TakeVectors(const TextEncoder& encoder, TextRun& run) {
  if (HasVectors(run)) return;
  const auto tokens = static_cast<size_t>(encoder.tokenizer->max_length());
  const auto features = static_cast<size_t>(encoder.config.hidden_size);
  run.push_back({kGivenVectors, std::vector<float>(tokens * features)});
  run.push_back({kVectorRows, OwnRows(tokens)});
}

// Host inputs of masked text graphs.
constexpr char kMask[] = "mask", kShare[] = "share";

// A score less this has no part in a softmax.
constexpr float kHidden = -1e30F;

// By query and key: each token attends to itself and those before it that are not hidden.
std::vector<float> MaskOf(size_t tokens, const prompts::Blend& blend) {
  std::vector<float> mask(tokens * tokens, kHidden);
  for (size_t query = 0; query < tokens; ++query) {
    for (size_t key = 0; key <= query; ++key) {
      if (key < blend.begin || key >= blend.end) mask[query * tokens + key] = 0;
    }
  }
  return mask;
}

// The mean of the state and the one before it.
Value BlendState(GraphBuilder& b, Value state) {
  const Value before = b.Input(kBlendedState, DType::kF32, b.shape(state), Rate::kStep);
  const Value share = b.Input(kShare, DType::kF32, {1}, Rate::kStep);
  return b.Add(before, b.Mul(b.Sub(state, before), share));
}

EmphasisOrigin OriginOf(const prompts::Chunk& chunk, Syntax syntax) {
  if (!chunk.has_weights()) return EmphasisOrigin::kPrompt;
  return syntax == Syntax::kA1111 ? EmphasisOrigin::kZeros : EmphasisOrigin::kEmpty;
}

void AppendEmphasis(const prompts::Chunk& chunk, std::vector<float>& emphasis) {
  for (const double weight : chunk.weights) emphasis.push_back(static_cast<float>(weight - 1));
}

void AddBlends(const prompts::Chunks& chunks, prompts::LongPrompt long_prompt, TextInputs& text) {
  std::vector<std::vector<prompts::Blend>> blends = prompts::BlendsOf(chunks, long_prompt);
  for (size_t i = 0; i < blends.size(); ++i) text.chunks[i].blends = std::move(blends[i]);
}

// Host inputs for the means of weighted states: 1 where a row wants them restored; and shares of
// the tokens and of the features in a mean.
constexpr char kRestoresMean[] = "restores_mean";
constexpr char kTokenShares[] = "token_shares", kFeatureShares[] = "feature_shares";

// Restores means; its inputs have a row for each of the image's.
struct MeanRule {
  Value restores;  // i64 [rows]
  Value tokens;    // [rows, 1, tokens]
  Value features;  // [rows, features, 1]
};

MeanRule AddMeanInputs(GraphBuilder& b, const TextEncoder& encoder, int64_t rows) {
  const int64_t tokens = encoder.tokenizer->max_length(), features = encoder.config.hidden_size;
  const auto shares = [&](const char* name, int64_t count, Shape shape) {
    return b.Reshape(b.Input(name, DType::kF32, {rows, count}, Rate::kRequest), std::move(shape));
  };
  return {b.Input(kRestoresMean, DType::kI64, {rows}, Rate::kRequest),
          shares(kTokenShares, tokens, {rows, 1, tokens}),
          shares(kFeatureShares, features, {rows, features, 1})};
}

// The mean of each row of [rows, tokens, features], as [rows, 1, 1].
Value MeanOf(GraphBuilder& b, const MeanRule& rule, Value x) {
  return b.Matmul(b.Matmul(rule.tokens, x), rule.features);
}

// The weighted state of a chunk, in rows that want it scaled to the mean that it had before.
Value RestoreMean(GraphBuilder& b, const MeanRule& rule, Value state, Value weighted) {
  const Shape shape = b.shape(state);
  const int64_t elements = shape[1] * shape[2];
  const Value scaled = b.Mul(weighted, b.Div(MeanOf(b, rule, state), MeanOf(b, rule, weighted)));
  const auto entry = [&](Value x) { return b.Reshape(x, {shape[0], 1, elements}); };
  return b.Reshape(b.Select(b.Concat({entry(weighted), entry(scaled)}, 1), rule.restores), shape);
}

// The same chunk by chunk.
Value RestoreMeans(GraphBuilder& b, const MeanRule& rule, Value state, Value weighted,
                   int64_t chunks) {
  if (chunks == 1) return RestoreMean(b, rule, state, weighted);
  const int64_t tokens = b.shape(state)[1] / chunks;
  std::vector<Value> restored;
  for (int64_t i = 0; i < chunks; ++i) {
    const auto chunk = [&](Value x) { return b.Slice(x, 1, i * tokens, (i + 1) * tokens); };
    restored.push_back(RestoreMean(b, rule, chunk(state), chunk(weighted)));
  }
  return b.Concat(restored, 1);
}

}  // namespace

std::string HiddenStatesInput(absl::string_view component) {
  return absl::StrCat("encoder_hidden_states.", component);
}

ClipState EncodeClip(GraphBuilder& b, const TextEncoder& encoder, const TextVariant& variant) {
  const int64_t tokens = encoder.tokenizer->max_length();
  const auto input = [&](const char* name, Shape shape) {
    return b.Input(name, DType::kI64, std::move(shape), Rate::kStep);
  };
  networks::ClipTextInputs inputs{input(kInputIds, {1, tokens}), input("pooled_position", {1})};
  if (variant.takes_vectors) {
    inputs.given_vectors =
        b.Input(kGivenVectors, DType::kF32, {tokens * encoder.config.hidden_size}, Rate::kStep);
    inputs.vector_rows = input(kVectorRows, {1, tokens});
  }
  if (variant.masked) inputs.mask = b.Input(kMask, DType::kF32, {1, tokens, tokens}, Rate::kStep);
  const networks::ClipTextOutputs outputs =
      networks::ClipText(b, encoder.config, encoder.component, inputs);
  return {SelectState(b, outputs.hidden_states, input("layer", {1})),
          variant.masked ? graph::kNone : outputs.pooled};
}

void OutputClip(GraphBuilder& b, const TextEncoder& encoder, const ClipState& given,
                const TextVariant& variant) {
  ClipState state = given;
  if (variant.masked) state.state = BlendState(b, state.state);
  b.Output(HiddenStatesInput(encoder.component), state.state);
  if (state.pooled.id == graph::kNone.id) return b.Output("finite", b.IsFinite(state.state));
  b.Output("text_embeds", state.pooled);
  // Both together, as one row.
  const auto flat = [&](Value value) { return b.Reshape(value, {1, b.shape(value).elements()}); };
  b.Output("finite", b.IsFinite(b.Concat({flat(state.state), flat(state.pooled)}, 1)));
}

TextRun BlendRun(const TextChunk& chunk, const prompts::Blend& blend) {
  const auto ids =
      absl::c_find_if(chunk.run, [](const HostInput& input) { return input.name == kInputIds; });
  TextRun run = chunk.run;
  run.push_back({kMask, MaskOf(std::get<std::vector<int64_t>>(ids->values).size(), blend)});
  run.push_back({kShare, std::vector<float>{static_cast<float>(blend.share)}});
  return run;
}

absl::Status AddClipPrompt(const TextEncoder& encoder, size_t index, const PromptText& prompt,
                           const PictureSpec& resolved, int64_t layer, RowInputs& row) {
  const auto in_field = [&](const absl::Status& status) {
    return InvalidFields({{std::string(prompt.field), std::string(status.message())}});
  };
  const auto pieces = prompts::ParsePrompt(prompt.text, resolved.prompt_syntax);
  if (!pieces.ok()) return in_field(pieces.status());
  const WordVectors words(encoder, index, resolved.words);
  auto tokens = prompts::MakeChunks(*pieces, resolved.prompt_syntax, resolved.long_prompt,
                                    *encoder.tokenizer, words.special());
  if (!tokens.ok()) return in_field(tokens.status());
  TextInputs& text = row.text.emplace_back(TextInputs{
      .empty = RunOf(encoder, prompts::EmptyChunk(*encoder.tokenizer).ids, layer, words)});
  std::vector<float> emphasis;
  for (const prompts::Chunk& chunk : tokens->chunks) {
    text.chunks.push_back(
        {RunOf(encoder, chunk.ids, layer, words), OriginOf(chunk, resolved.prompt_syntax)});
    row.has_words = row.has_words || HasVectors(text.chunks.back().run);
    AppendEmphasis(chunk, emphasis);
  }
  if (resolved.prompt_syntax == Syntax::kCompel) AddBlends(*tokens, resolved.long_prompt, text);
  row.request.push_back({EmphasisInput(encoder.component), std::move(emphasis)});
  row.chunks = std::max(row.chunks, static_cast<int>(text.chunks.size()));
  row.tokens = std::max(row.tokens, tokens->tokens);
  row.dropped_tokens = std::max(row.dropped_tokens, tokens->dropped);
  return absl::OkStatus();
}

void TakeVectors(const ModelConfigs& configs, RowInputs& row) {
  for (size_t i = 0; i < row.text.size(); ++i) {
    const TextEncoder& encoder = configs.text_encoders[i];
    for (TextChunk& chunk : row.text[i].chunks) TakeVectors(encoder, chunk.run);
    TakeVectors(encoder, row.text[i].empty);
  }
}

void AddNoPrompt(const TextEncoder& encoder, RowInputs& row) {
  row.request.push_back(
      {EmphasisInput(encoder.component), std::vector<float>(encoder.tokenizer->max_length())});
}

bool AddEmbeds(const ModelConfigs& configs, const PictureSpec& resolved, bool negative,
               RowInputs& row) {
  if (!(negative ? resolved.has_negative_embeds : resolved.has_prompt_embeds)) return false;
  row.embeds = negative ? RowEmbeds::kNegative : RowEmbeds::kPrompt;
  for (const TextEncoder& encoder : configs.text_encoders) AddNoPrompt(encoder, row);
  return true;
}

void PadChunks(const ModelConfigs& configs, int chunks, RowInputs& row) {
  for (TextInputs& text : row.text) {
    while (text.chunks.size() < static_cast<size_t>(chunks)) text.chunks.push_back({text.empty});
  }
  for (const TextEncoder& encoder : configs.text_encoders) {
    const auto input = absl::c_find_if(row.request, [&](const HostInput& one) {
      return one.name == EmphasisInput(encoder.component);
    });
    const auto tokens = static_cast<size_t>(encoder.tokenizer->max_length());
    std::get<std::vector<float>>(input->values).resize(tokens * static_cast<size_t>(chunks));
  }
  row.chunks = chunks;
}

void AddMeanRule(const TextEncoder& encoder, RowInputs& row) {
  const auto shares = [](int64_t count) {
    return std::vector<float>(static_cast<size_t>(count), 1 / static_cast<float>(count));
  };
  // Zeros are the origin of A1111's weights, where a prompt has any.
  const bool restores =
      !row.text.empty() && absl::c_any_of(row.text.back().chunks, [](const TextChunk& chunk) {
        return chunk.origin == EmphasisOrigin::kZeros;
      });
  row.request.push_back({kRestoresMean, std::vector<int64_t>{restores ? 1 : 0}});
  row.request.push_back({kTokenShares, shares(encoder.tokenizer->max_length())});
  row.request.push_back({kFeatureShares, shares(encoder.config.hidden_size)});
}

void WeighStates(const TextEncoder& encoder, const RowInputs& row, absl::Span<const float> origins,
                 absl::Span<float> states) {
  const auto input = [&](const std::string& name) {
    return absl::c_find_if(row.request, [&](const HostInput& one) { return one.name == name; });
  };
  const auto& emphasis =
      std::get<std::vector<float>>(input(EmphasisInput(encoder.component))->values);
  const auto restores = input(kRestoresMean);
  const bool restored = restores != row.request.end() &&
                        std::get<std::vector<int64_t>>(restores->values).front() == 1;
  const auto features = static_cast<size_t>(encoder.config.hidden_size);
  const size_t chunk = features * static_cast<size_t>(encoder.tokenizer->max_length());
  for (size_t begin = 0; begin < states.size(); begin += chunk) {
    const absl::Span<float> values = states.subspan(begin, chunk);
    const double before = std::accumulate(values.begin(), values.end(), 0.0);
    for (size_t i = 0; i < chunk; ++i) {
      values[i] += (values[i] - origins[begin + i]) * emphasis[(begin + i) / features];
    }
    if (!restored) continue;
    const double after = std::accumulate(values.begin(), values.end(), 0.0);
    for (float& value : values) value = static_cast<float>(value * (before / after));
  }
}

std::string EmphasisOriginInput(absl::string_view component) {
  return absl::StrCat("emphasis_origin.", component);
}

Value JoinHiddenStates(GraphBuilder& b, const ModelConfigs& configs, int64_t rows, int chunks,
                       EmphasisMean mean) {
  std::vector<Value> states;
  for (const TextEncoder& encoder : configs.text_encoders) {
    const int64_t tokens = int64_t{chunks} * encoder.tokenizer->max_length();
    const auto input = [&](const std::string& name, Shape shape) {
      return b.Input(name, DType::kF32, std::move(shape), Rate::kRequest);
    };
    const Shape shape = {rows, tokens, encoder.config.hidden_size};
    const Value state = input(HiddenStatesInput(encoder.component), shape);
    const Value origin = input(EmphasisOriginInput(encoder.component), shape);
    const Value emphasis = input(EmphasisInput(encoder.component), {rows, tokens});
    const Value away = b.Mul(b.Sub(state, origin), b.Reshape(emphasis, {rows, tokens, 1}));
    Value weighted = b.Add(state, away);
    if (mean == EmphasisMean::kRestored) {
      weighted = RestoreMeans(b, AddMeanInputs(b, encoder, rows), state, weighted, chunks);
    }
    states.push_back(weighted);
  }
  return b.Concat(states, 2);
}

}  // namespace latentd::families
