#include "core/backends/cuda/libraries/cublas_lt.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cuda/libraries/product_trial.h"
#include "core/backends/cuda/libraries/shared_library.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/coding.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {

using device::DType;

// The functions of the library that are called.
struct CublasLt::Functions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check;

  absl::Status Find(const SharedLibrary& library) {
    RETURN_IF_ERROR(library.Find("cublasLtCreate", create));
    RETURN_IF_ERROR(library.Find("cublasLtDestroy", destroy));
    RETURN_IF_ERROR(library.Find("cublasLtGetVersion", version));
    RETURN_IF_ERROR(library.Find("cublasLtGetStatusString", status_string));
    RETURN_IF_ERROR(library.Find("cublasLtMatmul", matmul));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulDescCreate", create_product));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulDescDestroy", destroy_product));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulDescSetAttribute", set_product));
    RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutCreate", create_layout));
    RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutDestroy", destroy_layout));
    RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutSetAttribute", set_layout));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceCreate", create_preference));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceDestroy", destroy_preference));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceSetAttribute", set_preference));
    RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoGetHeuristic", heuristic));
    return library.Find("cublasLtMatmulAlgoCheck", check);
  }

  absl::Status Status(cublasStatus_t status, absl::string_view what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    const std::string message = absl::StrCat("cuBLASLt: ", what, ": ", status_string(status));
    if (status == CUBLAS_STATUS_ALLOC_FAILED) return OutOfMemoryError(message);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(message);
    return device::cuda::FailureOf(message);
  }
};

namespace {

// Number of the library's first estimates that are tried; later ones were slower on every shape.
constexpr int kMostCandidates = 16;

cudaDataType_t CudaTypeOf(DType dtype) {
  if (dtype == DType::kF8E4M3) return CUDA_R_8F_E4M3;
  if (dtype == DType::kBF16) return CUDA_R_16BF;
  return dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

void AppendOperand(std::string& key, const ProductShape::Operand& operand) {
  absl::StrAppend(&key, " ", device::Name(operand.dtype), ":", operand.pitch, ":", operand.step,
                  ":", operand.alignment);
}

}  // namespace

std::string ProductShape::Key() const {
  std::string key = absl::StrCat("product ", rows, "x", columns, "x", depth, "*", batch);
  for (const Operand* operand : {&a, &b, &result}) AppendOperand(key, *operand);
  absl::StrAppend(&key, b_transposed ? " transposed" : "", has_bias ? " bias" : "",
                  has_residual ? " residual" : "", tf32 ? " tf32" : "");
  return key;
}

Product::~Product() {
  const CublasLt::Functions& f = *library_.functions_;
  if (product_ != nullptr) f.destroy_product(product_);
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    if (layout != nullptr) f.destroy_layout(layout);
  }
}

absl::Status Product::DescribeOperand(cublasLtMatrixLayout_t& layout,
                                      const ProductShape::Operand& operand, int64_t lines,
                                      int64_t line) const {
  const CublasLt::Functions& f = *library_.functions_;
  RETURN_IF_ERROR(
      f.Status(f.create_layout(&layout, CudaTypeOf(operand.dtype), line, lines, operand.pitch),
               "a matrix's layout"));
  const auto batch = static_cast<int32_t>(shape_.batch);
  RETURN_IF_ERROR(f.Status(
      f.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)), "a batch"));
  return f.Status(f.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &operand.step,
                               sizeof(operand.step)),
                  "a batch's step");
}

absl::Status Product::Describe() {
  const CublasLt::Functions& f = *library_.functions_;
  const auto compute = shape_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  RETURN_IF_ERROR(f.Status(f.create_product(&product_, compute, CUDA_R_32F), "a product"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return f.Status(f.set_product(product_, attribute, &value, sizeof(value)), "an attribute");
  };
  const cublasOperation_t first = shape_.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
  if (shape_.has_bias) {
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CudaTypeOf(shape_.result.dtype)));
  }
  if (shape_.is_f8()) RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}));
  const int64_t k = shape_.depth, n = shape_.columns;
  RETURN_IF_ERROR(shape_.b_transposed ? DescribeOperand(first_, shape_.b, n, k)
                                      : DescribeOperand(first_, shape_.b, k, n));
  RETURN_IF_ERROR(DescribeOperand(second_, shape_.a, shape_.rows, k));
  return DescribeOperand(result_, shape_.result, shape_.rows, n);
}

absl::Status Product::Enqueue(const ProductAddresses& at, cudaStream_t stream) const {
  const CublasLt::Functions& f = *library_.functions_;
  // Addresses are in the description, which others may be using: one of our own.
  cublasLtMatmulDescOpaque_t described;
  std::memcpy(&described, product_, sizeof(described));
  cublasLtMatmulDesc_t product = &described;
  if (shape_.has_bias) {
    RETURN_IF_ERROR(f.Status(
        f.set_product(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at.bias, sizeof(at.bias)),
        "a bias"));
  }
  if (shape_.is_f8()) {
    RETURN_IF_ERROR(f.Status(f.set_product(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                           &at.f8_scale, sizeof(at.f8_scale)),
                             "a scale"));
  }
  const float beta = shape_.has_residual ? 1 : 0;
  const void* residual = shape_.has_residual ? at.residual : at.result;
  const cublasStatus_t status = f.matmul(
      library_.handle_, product, &shape_.scale, at.b, first_, at.a, second_, &beta, residual,
      result_, at.result, result_, &algorithm_, at.workspace, workspace_bytes_, stream);
  return status == CUBLAS_STATUS_SUCCESS ? absl::OkStatus() : f.Status(status, shape_.Key());
}

CublasLt::CublasLt() : functions_(std::make_unique<Functions>()) {}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Open() {
  ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libcublasLt.so.13"));
  std::unique_ptr<CublasLt> lt(new CublasLt());
  RETURN_IF_ERROR(lt->functions_->Find(library));
  RETURN_IF_ERROR(lt->functions_->Status(lt->functions_->create(&lt->handle_), "a handle"));
  return lt;
}

size_t CublasLt::version() const { return functions_->version(); }

// As bytes: the library's 64 of the algorithm, then u64 of its workspace.
absl::StatusOr<std::vector<std::string>> CublasLt::Candidates(const ProductShape& shape) const {
  const Functions& f = *functions_;
  Product product(*this, shape);
  RETURN_IF_ERROR(product.Describe());
  // Any address: whether there is a bias decides, not where it lies.
  const void* bias = handle_;
  if (shape.has_bias) {
    RETURN_IF_ERROR(f.Status(
        f.set_product(product.product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
        "a bias"));
  }
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(f.Status(f.create_preference(&preference), "a preference"));
  const auto destroy = [&f](cublasLtMatmulPreference_t p) { f.destroy_preference(p); };
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(destroy)> owner(preference,
                                                                                   destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return f.Status(f.set_preference(preference, attribute, &value, sizeof(value)), "a preference");
  };
  RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{CublasLt::kMostWorkspaceBytes}));
  // Sums of parts in f32 too: the other schemes round them to the result's dtype.
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  const auto aligned = [](const ProductShape::Operand& operand) {
    return static_cast<uint32_t>(operand.alignment);
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(shape.b)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(shape.a)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned(shape.result)));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned(shape.result)));
  std::vector<cublasLtMatmulHeuristicResult_t> found(kMostCandidates);
  int count = 0;
  const cublasStatus_t status =
      f.heuristic(handle_, product.product_, product.first_, product.second_, product.result_,
                  product.result_, preference, kMostCandidates, found.data(), &count);
  RETURN_IF_ERROR(f.Status(status, shape.Key()));
  std::vector<std::string> candidates;
  for (int i = 0; i < count; ++i) {
    std::string& bytes = candidates.emplace_back(reinterpret_cast<const char*>(&found[i].algo),
                                                 sizeof(found[i].algo));
    PutLittleEndian(bytes, uint64_t{found[i].workspaceSize});
  }
  if (!candidates.empty()) return candidates;
  return absl::UnimplementedError(absl::StrCat("cuBLASLt has no ", shape.Key()));
}

absl::StatusOr<std::vector<size_t>> CublasLt::ByTime(const ProductShape& shape,
                                                     const std::vector<std::string>& candidates,
                                                     ProductTrial& trial,
                                                     const TrialWatch& watch) const {
  std::vector<std::pair<double, size_t>> timed;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto product = Load(shape, candidates[i]);
    if (!product.ok()) continue;
    if (watch.announce) watch.announce(candidates[i]);
    const absl::StatusOr<double> time = trial.Time(**product);
    if (time.ok()) {
      timed.emplace_back(*time, i);
    } else {
      RETURN_IF_ERROR(trial.CheckDevice());  // or it is the algorithm
    }
  }
  std::sort(timed.begin(), timed.end());
  std::vector<size_t> by_time;
  by_time.reserve(timed.size());
  for (const auto& [time, candidate] : timed) by_time.push_back(candidate);
  return by_time;
}

absl::StatusOr<Choice> CublasLt::Choose(const ProductShape& shape, const TrialWatch& watch) const {
  ASSIGN_OR_RETURN(std::vector<std::string> candidates, Candidates(shape));
  for (const std::string& bad : watch.left_out) {
    candidates.erase(std::remove(candidates.begin(), candidates.end(), bad), candidates.end());
  }
  absl::Status wrong = absl::UnimplementedError(absl::StrCat("cuBLASLt runs no ", shape.Key()));
  if (candidates.empty()) return wrong;
  absl::MutexLock alone(&trying_);
  absl::StatusOr<std::unique_ptr<ProductTrial>> trial = ProductTrial::Create(shape);
  if (absl::IsResourceExhausted(trial.status())) {
    return Choice{.bytes = candidates.front(), .lasting = false};
  }
  RETURN_IF_ERROR(trial.status());
  ASSIGN_OR_RETURN(const std::vector<size_t> by_time, ByTime(shape, candidates, **trial, watch));
  for (const size_t candidate : by_time) {
    ASSIGN_OR_RETURN(const auto product, Load(shape, candidates[candidate]));
    if (watch.announce) watch.announce(candidates[candidate]);
    wrong = (*trial)->Check(*product);
    if (wrong.ok()) return Choice{candidates[candidate], KernelWork::kTrial};
    RETURN_IF_ERROR((*trial)->CheckDevice());
  }
  return wrong;
}

absl::StatusOr<std::unique_ptr<Product>> CublasLt::Load(const ProductShape& shape,
                                                        absl::string_view algorithm) const {
  std::unique_ptr<Product> product(new Product(*this, shape));
  LittleEndianReader reader(algorithm);
  const absl::string_view bytes = reader.TakeBytes(sizeof(product->algorithm_));
  product->workspace_bytes_ = reader.Take<uint64_t>();
  if (!reader.done() || product->workspace_bytes_ > kMostWorkspaceBytes) {
    return absl::InvalidArgumentError("not an algorithm of cuBLASLt");
  }
  std::memcpy(&product->algorithm_, bytes.data(), bytes.size());
  RETURN_IF_ERROR(product->Describe());
  cublasLtMatmulHeuristicResult_t checked = {};
  const cublasStatus_t status =
      functions_->check(handle_, product->product_, product->first_, product->second_,
                        product->result_, product->result_, &product->algorithm_, &checked);
  const bool unfit = status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_NOT_SUPPORTED;
  if (!unfit) RETURN_IF_ERROR(functions_->Status(status, "checking an algorithm"));
  if (status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= product->workspace_bytes_) {
    return product;
  }
  return absl::InvalidArgumentError(absl::StrCat("an algorithm that is none for ", shape.Key()));
}

}  // namespace latentd::backends::cuda
