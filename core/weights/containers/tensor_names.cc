#include "core/weights/containers/tensor_names.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace latentd::weights {
namespace {

constexpr absl::string_view kTextPrefix = "text_model.";

// How a part of attention was and is called.
struct Spelling {
  absl::string_view old, today;
};
constexpr Spelling kSpellings[] = {{".query.", ".to_q."},
                                   {".key.", ".to_k."},
                                   {".value.", ".to_v."},
                                   {".proj_attn.", ".to_out.0."}};

std::string TextName(absl::string_view name) {
  const absl::string_view bare = absl::StripPrefix(name, kTextPrefix);
  const bool is_projection = absl::StartsWith(bare, "text_projection.");
  return absl::StrCat(is_projection ? "" : kTextPrefix, bare);
}

std::string TodaysName(const std::string& name) {
  for (const auto& [old, today] : kSpellings) {
    if (absl::StrContains(name, old)) return absl::StrReplaceAll(name, {{old, today}});
  }
  return name;
}

bool IsAttention(const std::string& name) {
  return absl::c_any_of(kSpellings, [&](const Spelling& spelling) {
    return absl::StrContains(name, spelling.today);
  });
}

void FlattenConvolution(StoredTensor& tensor) {
  const device::Shape& shape = tensor.data.shape();
  if (shape.rank() != 4 || shape[2] != 1 || shape[3] != 1) return;
  tensor.data = tensor.data.Reshaped({shape[0], shape[1]});
}

}  // namespace

TensorMap UnderTodaysNames(TensorMap tensors, absl::string_view class_name) {
  const bool is_text = absl::StartsWith(class_name, "CLIPText");
  TensorMap renamed;
  renamed.reserve(tensors.size());
  for (auto& [name, tensor] : tensors) {
    const std::string today = is_text ? TextName(name) : TodaysName(name);
    if (!is_text && IsAttention(today)) FlattenConvolution(tensor);
    if (today == name) {
      renamed.insert_or_assign(today, std::move(tensor));
    } else {
      renamed.try_emplace(today, std::move(tensor));
    }
  }
  return renamed;
}

}  // namespace latentd::weights
