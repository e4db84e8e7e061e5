#include "core/backends/cuda/libraries/product_trial.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {
namespace {

using device::cuda::ToStatus;

constexpr size_t kCacheBytes = size_t{96} << 20;
// Scale of 8-bit operands.
constexpr float kF8Scale = 0.5f;
constexpr int kMostCopies = 16, kRuns = 10, kRepetitions = 3;

int64_t ElementsOf(const ProductShape::Operand& operand, int64_t lines, int64_t line,
                   int64_t batch) {
  return (batch - 1) * operand.step + (lines - 1) * operand.pitch + line;
}

}  // namespace

ProductTrial::~ProductTrial() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
}

absl::StatusOr<std::unique_ptr<ProductTrial>> ProductTrial::Create(const ProductShape& shape) {
  ASSIGN_OR_RETURN(std::unique_ptr<TrialMemory> memory, TrialMemory::Create());
  auto trial = absl::WrapUnique(new ProductTrial(shape, std::move(memory)));
  RETURN_IF_ERROR(ToStatus(cudaEventCreate(&trial->begin_), "making an event"));
  RETURN_IF_ERROR(ToStatus(cudaEventCreate(&trial->end_), "making an event"));
  RETURN_IF_ERROR(trial->Allocate());
  return trial;
}

absl::Status ProductTrial::Allocate() {
  const ProductShape& s = shape_;
  const int64_t of_b = s.b_transposed ? ElementsOf(s.b, s.columns, s.depth, s.batch)
                                      : ElementsOf(s.b, s.depth, s.columns, s.batch);
  const int64_t of_result = ElementsOf(s.result, s.rows, s.columns, s.batch);
  const size_t bytes = of_b * device::SizeOf(s.b.dtype);
  copies_ = std::clamp(static_cast<int>(kCacheBytes / bytes), 1, kMostCopies);
  ASSIGN_OR_RETURN(a_, memory_->Draw(ElementsOf(s.a, s.rows, s.depth, s.batch), s.a.dtype));
  ASSIGN_OR_RETURN(b_, memory_->Draw(of_b, s.b.dtype, copies_));
  ASSIGN_OR_RETURN(residual_, memory_->Draw(s.has_residual ? of_result : 0, s.result.dtype));
  ASSIGN_OR_RETURN(bias_, memory_->Draw(s.has_bias ? s.columns : 0, s.result.dtype));
  ASSIGN_OR_RETURN(result_, memory_->Allocate(of_result, s.result.dtype));
  ASSIGN_OR_RETURN(workspace_, memory_->Take(CublasLt::kMostWorkspaceBytes));
  ASSIGN_OR_RETURN(f8_scale_, memory_->Take(sizeof(kF8Scale)));
  return ToStatus(cudaMemcpyAsync(f8_scale_, &kF8Scale, sizeof(kF8Scale), cudaMemcpyHostToDevice,
                                  memory_->stream()),
                  "filling a trial");
}

ProductAddresses ProductTrial::AddressesOf(int run) const {
  return {.a = a_.data,
          .b = b_.Copy(run % copies_),
          .f8_scale = f8_scale_,
          .bias = bias_.data,
          .residual = residual_.data,
          .result = result_.data,
          .workspace = workspace_};
}

absl::Status ProductTrial::Enqueue(const Product& product, int run) {
  return product.Enqueue(AddressesOf(run), memory_->stream());
}

absl::StatusOr<double> ProductTrial::Time(const Product& product) {
  RETURN_IF_ERROR(Enqueue(product, 0));
  float least = HUGE_VALF;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(begin_, memory_->stream()), "timing"));
    for (int run = 0; run < kRuns; ++run) RETURN_IF_ERROR(Enqueue(product, run));
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(end_, memory_->stream()), "timing"));
    RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(end_), "timing"));
    float milliseconds = 0;
    RETURN_IF_ERROR(ToStatus(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing"));
    least = std::min(least, milliseconds / kRuns);
  }
  return least;
}

absl::Status ProductTrial::CheckDevice() const { return memory_->Wait(); }

TrialMemory::Sample ProductTrial::Draw(TrialMemory::Random& random) const {
  const ProductShape& s = shape_;
  const int64_t matrix = TrialMemory::Below(random, s.batch);
  const int64_t row = TrialMemory::Below(random, s.rows);
  const int64_t column = TrialMemory::Below(random, s.columns);
  double sum = 0;
  for (int64_t k = 0; k < s.depth; ++k) {
    const int64_t of_b = s.b_transposed ? column * s.b.pitch + k : k * s.b.pitch + column;
    sum += memory_->Value(a_, matrix * s.a.step + row * s.a.pitch + k) *
           memory_->Value(b_, matrix * s.b.step + of_b);
  }
  const int64_t index = matrix * s.result.step + row * s.result.pitch + column;
  const double scale = s.is_f8() ? s.scale * kF8Scale : s.scale;
  sum *= scale;
  if (s.has_bias) sum += memory_->Value(bias_, column);
  if (s.has_residual) sum += memory_->Value(residual_, index);
  // The deviation of a sum of products of normal numbers is the root of their count.
  return {index, sum, std::abs(scale) * std::sqrt(static_cast<double>(s.depth)) + 1};
}

absl::Status ProductTrial::Check(const Product& product) {
  RETURN_IF_ERROR(memory_->Poison(result_));
  RETURN_IF_ERROR(Enqueue(product, 0));
  return memory_->Check(
      result_, [this](TrialMemory::Random& random) { return Draw(random); }, shape_.Key(),
      shape_.tf32);
}

}  // namespace latentd::backends::cuda
