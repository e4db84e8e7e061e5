// Attention by two kernels of our own, for few keys and for many, of which Hopper has the second,
// where these have the shape; by cuDNN where that has it; else as two products with the scores in
// the workspace, for some queries at a time.
#include "core/backends/cuda/binders/attention.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/attention/attention_weights.h"
#include "core/backends/cuda/kernels/attention/long_attention.h"
#include "core/backends/cuda/kernels/attention/short_attention.h"
#include "core/backends/cuda/kernels/values/f8.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;

constexpr size_t kMostScoreBytes = size_t{256} << 20;

// The smallest head that our kernels were measured to be faster for than cuDNN's; for heads of 32
// that was also nearer to the reference (docs/performance.md).
constexpr int64_t kLeastOwnSize = 40;

AttentionShape ShapeOf(const BinderArguments& a) {
  const auto& attention = std::get<graph::AttentionAttributes>(a.instruction.attributes);
  const View &query = a.operand(0), &key = a.operand(1), &value = a.operand(2);
  const auto strides = [](const View& view) {
    return AttentionShape::Operand{view.strides[0], view.strides[1]};
  };
  return {.dtype = query.dtype,
          .rows = query.shape[0],
          .heads = attention.heads,
          .queries = query.shape[1],
          .keys = key.shape[1],
          .size = query.shape[2] / attention.heads,
          .query = strides(query),
          .key = strides(key),
          .value = strides(value),
          .scale = attention.scale,
          .causal = attention.causal};
}

// Our kernels and cuDNN's flash attention read 16 bytes at a time.
bool IsReadInWords(const BinderArguments& a, const AttentionShape& s) {
  if (s.dtype == DType::kF32 || s.size % 8 != 0) return false;
  for (int i = 0; i < 3; ++i) {
    const View& view = a.operand(i);
    if (AlignmentOf(a.program, view, {view.strides[0], view.strides[1]}) < kPortAlignment) {
      return false;
    }
  }
  return true;
}

// cuDNN takes the largest score to have the largest product: with a negative scale it gives NaN.
bool CudnnMayHaveIt(const AttentionShape& s) { return s.size <= 256 && s.scale > 0; }

// Some queries of all heads of a row: which they are differs, how many does not.
struct Block {
  int64_t queries;
  std::shared_ptr<const Product> scores, result;
};

struct Layout {
  AttentionShape shape;
  size_t weights_at, products_at;  // in the workspace, behind the scores
};

absl::StatusOr<Block> BindBlock(const BinderArguments& a, const AttentionShape& s,
                                int64_t queries) {
  const auto heads_of = [&](const View& view, int64_t token) {
    return ProductShape::Operand{view.dtype, token, s.size,
                                 AlignmentOf(a.program, view, {view.strides[0], token, s.size})};
  };
  const auto dense = [](DType dtype, int64_t lines, int64_t line) {
    ProductShape::Operand operand{dtype, line, lines * line};
    operand.alignment = std::gcd(int64_t{256}, line * device::SizeOf(dtype));
    return operand;
  };
  ProductShape scores;
  scores.rows = queries;
  scores.columns = s.keys;
  scores.depth = s.size;
  scores.batch = s.heads;
  scores.a = heads_of(a.operand(0), s.query.token);
  scores.b = heads_of(a.operand(1), s.key.token);
  scores.b_transposed = true;
  scores.result = dense(DType::kF32, queries, s.keys);
  scores.scale = s.scale;
  ProductShape result;
  result.rows = queries;
  result.columns = s.size;
  result.depth = s.keys;
  result.batch = s.heads;
  result.a = dense(s.dtype, queries, s.keys);
  result.b = heads_of(a.operand(2), s.value.token);
  result.result = heads_of(a.result(), s.heads * s.size);
  Block block = {queries, nullptr, nullptr};
  ASSIGN_OR_RETURN(block.scores, BindProduct(a, scores));
  ASSIGN_OR_RETURN(block.result, BindProduct(a, result));
  return block;
}

struct Addresses {
  const char* query;
  const char* key;
  const char* value;
  char* result;
};

absl::Status EnqueueBlock(const Block& block, const Layout& layout, const Addresses& at,
                          int64_t first_query, const Frame& f) {
  const AttentionShape& s = layout.shape;
  char* weights = f.workspace + layout.weights_at;
  char* products = f.workspace + layout.products_at;
  RETURN_IF_ERROR(block.scores->Enqueue(
      {.a = at.query, .b = at.key, .result = f.workspace, .workspace = products}, f.stream));
  kernels::AttentionWeightsArgs softmax;
  softmax.element = static_cast<kernels::Element>(s.dtype);
  softmax.scores = reinterpret_cast<const float*>(f.workspace);
  softmax.result = weights;
  softmax.matrices = s.heads;
  softmax.queries = block.queries;
  softmax.keys = s.keys;
  softmax.causal = s.causal;
  softmax.first_query = first_query;
  RETURN_IF_ERROR(Launched(kernels::AttentionWeights(softmax, f.stream), graph::Op::kAttention));
  return block.result->Enqueue(
      {.a = weights, .b = at.value, .result = at.result, .workspace = products}, f.stream);
}

int64_t QueriesOfABlock(const AttentionShape& s) {
  const auto of_query = static_cast<int64_t>(kMostScoreBytes) / (4 * s.heads * s.keys);
  return std::clamp<int64_t>(of_query, 1, s.queries);
}

absl::StatusOr<BoundKernel> BindProducts(const BinderArguments& a, const AttentionShape& s) {
  const int64_t queries = QueriesOfABlock(s), rest = s.queries % queries;
  ASSIGN_OR_RETURN(const Block block, BindBlock(a, s, queries));
  Block last = block;
  if (rest != 0) {
    ASSIGN_OR_RETURN(last, BindBlock(a, s, rest));
  }
  const auto scores = static_cast<size_t>(s.heads * queries * s.keys);
  Layout layout = {s, s.dtype == DType::kF32 ? 0 : RoundUp(scores * 4, 256), 0};
  layout.products_at = layout.weights_at + RoundUp(scores * device::SizeOf(s.dtype), 256);
  BoundKernel kernel;
  kernel.workspace_bytes = layout.products_at;
  for (const Block& each : {block, last}) {
    for (const auto& product : {each.scores, each.result}) {
      kernel.workspace_bytes =
          std::max(kernel.workspace_bytes, layout.products_at + product->workspace_bytes());
    }
  }
  kernel.enqueue = [=, query = a.operand(0), key = a.operand(1), value = a.operand(2),
                    y = a.result()](const Frame& f) -> absl::Status {
    const int64_t bytes = device::SizeOf(s.dtype), token = s.heads * s.size;
    for (int64_t row = 0; row < s.rows; ++row) {
      for (int64_t first = 0; first < s.queries; first += queries) {
        const Addresses at = {
            BytesOf(query, f) + (row * s.query.row + first * s.query.token) * bytes,
            BytesOf(key, f) + row * s.key.row * bytes,
            BytesOf(value, f) + row * s.value.row * bytes,
            BytesOf(y, f) + (row * s.queries + first) * token * bytes};
        const bool whole = first + queries <= s.queries;
        RETURN_IF_ERROR(EnqueueBlock(whole ? block : last, layout, at, first, f));
      }
    }
    return absl::OkStatus();
  };
  return kernel;
}

BoundKernel BindPlan(const BinderArguments& a, const std::shared_ptr<const CudnnPlan>& plan) {
  BoundKernel kernel;
  kernel.workspace_bytes = plan->workspace_bytes();
  kernel.enqueue = [plan, query = a.operand(0), key = a.operand(1), value = a.operand(2),
                    y = a.result()](const Frame& f) {
    const std::array<void*, 4> addresses = {BytesOf(query, f), BytesOf(key, f), BytesOf(value, f),
                                            BytesOf(y, f)};
    return plan->Enqueue(addresses, f.workspace, f.stream);
  };
  return kernel;
}

// All but the addresses.
kernels::AttentionArgs ArgsOf(const AttentionShape& s) {
  const auto strides = [](const AttentionShape::Operand& operand) {
    return kernels::AttentionArgs::Operand{nullptr, operand.row, operand.token};
  };
  return {.element = static_cast<kernels::Element>(s.dtype),
          .query = strides(s.query),
          .key = strides(s.key),
          .value = strides(s.value),
          .rows = s.rows,
          .heads = s.heads,
          .queries = s.queries,
          .keys = s.keys,
          .size = s.size,
          .scale = s.scale,
          .causal = s.causal};
}

// `scale`: of a result of 8 bits, or absent.
BoundKernel BindOwn(const BinderArguments& a, const kernels::AttentionArgs& args,
                    OwnAttention launch, const View& scale = {}) {
  return OwnKernel(a, args,
                   [launch, query = a.operand(0), key = a.operand(1), value = a.operand(2), scale,
                    y = a.result()](auto& args, const Frame& f) {
                     args.query.data = BytesOf(query, f);
                     args.key.data = BytesOf(key, f);
                     args.value.data = BytesOf(value, f);
                     args.f8_scale = scale.present() ? AddressOf<const float>(scale, f) : nullptr;
                     args.result = BytesOf(y, f);
                     return launch(args, f.stream);
                   });
}

// Our own kernel for the attention; null: another is better, or there is none.
OwnAttention OwnFor(const BinderArguments& a, const AttentionShape& shape) {
  if (!IsReadInWords(a, shape) || shape.size > kernels::kAttentionSize) return nullptr;
  return OwnAttentionFor(ArgsOf(shape), a.gpu.device.properties());
}

// The result of `attend` in the workspace, then in 8 bits.
BoundKernel Quantized(const BinderArguments& a, BoundKernel attend, const View& plain) {
  const size_t bytes =
      RoundUp<size_t>(plain.shape.elements() * device::SizeOf(plain.dtype), kPlaceAlignment);
  kernels::QuantizeArgs args;
  args.element = ElementOf(plain);
  args.size = plain.shape.elements();
  BoundKernel kernel =
      OwnKernel(a, args, [scale = a.operand(3), y = a.result()](auto& args, const Frame& f) {
        args.x = f.workspace;
        args.scale = AddressOf<const float>(scale, f);
        args.result = BytesOf(y, f);
        return kernels::Quantize(args, f.stream);
      });
  kernel.workspace_bytes = bytes + attend.workspace_bytes;
  kernel.enqueue = [=, count = a.program.storages.size(), quantize = std::move(kernel.enqueue),
                    attend = std::move(attend.enqueue)](const Frame& f) -> absl::Status {
    std::vector<char*> storages(f.storages, f.storages + count);
    storages[plain.storage] = f.workspace;
    Frame inner = f;
    inner.storages = storages.data();
    inner.workspace = f.workspace + bytes;
    RETURN_IF_ERROR(attend(inner));
    return quantize(f);
  };
  return kernel;
}

}  // namespace

// The one for many keys is faster than cuDNN at nearly all of SDXL's shapes, and never slower than
// it with the clearing of memory that it needs before. Over few keys it is a tenth faster than the
// kernel for those where all of it is on the GPU at once, and else slower.
OwnAttention OwnAttentionFor(const kernels::AttentionArgs& args,
                             const device::cuda::CudaProperties& gpu) {
  if (args.size < kLeastOwnSize) return nullptr;
  const bool few = args.keys <= kernels::kMostShortAttentionKeys;
  const int64_t at_once = int64_t{gpu.multiprocessors} * kernels::kMostLongAttentionTiles;
  if (IsHopper(gpu) && kernels::HasLongAttention(args) &&
      (!few || kernels::LongAttentionTiles(args) <= at_once)) {
    return kernels::LongAttention;
  }
  return few ? kernels::ShortAttention : nullptr;
}

absl::StatusOr<BoundKernel> BindAttention(const BinderArguments& a) {
  const AttentionShape shape = ShapeOf(a);
  const OwnAttention own = OwnFor(a, shape);
  if (own != nullptr) return BindOwn(a, ArgsOf(shape), own);
  if (!IsReadInWords(a, shape) || !CudnnMayHaveIt(shape)) return BindProducts(a, shape);
  ASSIGN_OR_RETURN(const std::shared_ptr<const CudnnPlan> plan, CudnnPlanFor(a, shape));
  if (plan == nullptr) return BindProducts(a, shape);
  return BindPlan(a, plan);
}

absl::StatusOr<BoundKernel> BindAttentionF8(const BinderArguments& a) {
  const AttentionShape shape = ShapeOf(a);
  const OwnAttention own = OwnFor(a, shape);
  if (own == kernels::LongAttention) return BindOwn(a, ArgsOf(shape), own, a.operand(3));
  Instruction plain = a.instruction;
  plain.operands.pop_back();
  plain.result.dtype = a.operand(0).dtype;
  plain.result.offset = 0;
  ASSIGN_OR_RETURN(BoundKernel attend, BindAttention({{a.program, plain}, a.chooser, a.gpu}));
  return Quantized(a, std::move(attend), plain.result);
}

}  // namespace latentd::backends::cuda
