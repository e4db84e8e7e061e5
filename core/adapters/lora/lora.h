// A Lora is what a LoRA's file changes in a model: for each weight that it touches, a delta, as
// tensors of the file. Whatever the file's format, the names are the model's, and the tensors have
// the shapes that are said here: ones at the end of a shape are added or dropped, which copies
// nothing.
//
// Below, [out, in, ...] is WeightChange::shape, "..." is kh, kw of a convolution and nothing else,
// and "columns" is in * kh * kw. Vectors change by a Difference alone.
//
// Plain data; copies share the tensors' memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/device/shape.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// Without mid: up * down, in the weight's shape. With it, of a convolution (CP):
// delta[o, i, y, x] = sum over m, n of up[o, m] * mid[m, n, y, x] * down[n, i].
struct LowRank {
  weights::StoredTensor down;                // [r, columns]; with mid [r, in]
  weights::StoredTensor up;                  // [out, r]
  std::optional<weights::StoredTensor> mid;  // [r, r, kh, kw]
};

// LoHa: (w1_a * w1_b) times (w2_a * w2_b), element by element, in the weight's shape. With t1 and
// t2, which come together, each factor is X[p, q, y, x] = sum over i, j of
// t[i, j, y, x] * w_b[j, q] * w_a[i, p].
struct Hadamard {
  weights::StoredTensor w1_a, w1_b;  // [out, r] and [r, columns]; with t1 [r, out] and [r, in]
  weights::StoredTensor w2_a, w2_b;  // the same, of a rank of its own
  std::optional<weights::StoredTensor> t1, t2;  // [r, r, kh, kw]
};

// LoKr: delta[a * B + b, c * D + d, ...] = w1[a, c] * w2[b, d, ...], where w1 is [A, C], w2 is
// [B, D, ...], A * B = out and C * D = in. Each factor is there whole, or as the product of _a and
// _b; w2 of a convolution also with t2, as of Hadamard: w2[b, d, y, x] = sum over i, j of
// t2[i, j, y, x] * w2_b[j, d] * w2_a[i, b].
struct Kronecker {
  std::optional<weights::StoredTensor> w1;          // [A, C]
  std::optional<weights::StoredTensor> w1_a, w1_b;  // [A, r], [r, C]
  std::optional<weights::StoredTensor> w2;          // [B, D, ...]
  // [B, r] and [r, D * kh * kw]; with t2 [r, B] and [r, D].
  std::optional<weights::StoredTensor> w2_a, w2_b;
  std::optional<weights::StoredTensor> t2;  // [r, r, kh, kw]
};

// All of the delta, as it is: of a weight, a bias or a norm.
struct Difference {
  weights::StoredTensor diff;  // in WeightChange::shape
};

using Delta = std::variant<LowRank, Hadamard, Kronecker, Difference>;

// DoRA: the changed weight is given these lengths, by rows or by columns.
struct Magnitude {
  // kPeft is lora_magnitude_vector, where the user's weight is inside the norm; kLycoris is
  // dora_scale.
  enum class Rule : uint8_t { kPeft, kLycoris };
  // kRows: a length for each output, over all other dimensions; kColumns: for each input. kPeft has
  // rows.
  enum class Axis : uint8_t { kRows, kColumns };

  weights::StoredTensor values;  // [out] or [in]
  Rule rule = Rule::kPeft;
  Axis axis = Axis::kRows;
};

// The change of one stored weight of the model.
struct WeightChange {
  std::string weight;  // its name in the model's WeightSet: "unet/conv_in.weight"
  // Shape of the delta: the weight's, but that a UNet's first convolution may have more input
  // channels than the delta, whose change is zero there (inpainting's 9, of which a LoRA knows 4).
  device::Shape shape;
  Delta delta;
  // A factor of the delta: alpha / rank and the like, without the user's weight.
  double scale = 1;
  std::optional<Magnitude> magnitude;
};

// Texts that the file says of itself, for people: never numbers to compute with. Each has at most
// 1024 bytes and no control characters. Empty: not said.
struct LoraMetadata {
  std::string base_model;       // "sdxl_base_v1-0", "stable-diffusion-xl-v1-base/lora"
  std::string output_name;      // as its maker called it
  std::string trigger_phrase;   // words that a prompt should have
  std::string clip_skip;        // with which it was trained
  std::string prediction_type;  // likewise
  // Tags of the pictures that it was trained with (kohya's ss_tag_frequency): those of most
  // pictures, at most 10, the most frequent first.
  std::vector<std::string> trigger_words;
};

struct Lora {
  std::string name;
  std::vector<WeightChange> changes;  // in the order of the weights' names, each once
  LoraMetadata metadata;
  std::vector<std::string> warnings;  // sentences
};

}  // namespace latentd::adapters
