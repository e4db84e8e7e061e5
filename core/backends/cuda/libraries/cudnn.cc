// The one file that includes cudnn-frontend, which takes its time to compile. It throws where the
// library lacks a function; nothing of that leaves this file.
#include "core/backends/cuda/libraries/cudnn.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#include <cudnn_frontend.h>

#include <deque>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/cuda/libraries/shared_library.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/device_fault.h"

// The handle by which cudnn-frontend finds the library's functions.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace latentd::backends::cuda {
namespace {

namespace fe = cudnn_frontend;
using device::DType;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

absl::Status ToStatus(fe::error_t error, absl::string_view what) {
  if (error.is_good()) return absl::OkStatus();
  const std::string message = absl::StrCat("cuDNN: ", what, ": ", error.get_message());
  const bool unknown = error.code == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
                       error.code == fe::error_code_t::HEURISTIC_QUERY_FAILED ||
                       error.code == fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED;
  return unknown ? absl::UnimplementedError(message) : device::cuda::FailureOf(message);
}

template <typename Function>
auto Caught(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("cuDNN: ", error.what()));
  }
}

fe::DataType_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return fe::DataType_t::FLOAT;
  return dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

// Tensors are numbered from 1 in the order of the addresses; the result comes last.
class Drawing {
 public:
  explicit Drawing(DType dtype) : graph(std::make_shared<Graph>()), dtype_(dtype) {
    graph->set_io_data_type(TypeOf(dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor Add(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return graph->tensor(Tensor_attributes()
                             .set_uid(next_++)
                             .set_data_type(TypeOf(dtype_))
                             .set_dim(sizes)
                             .set_stride(strides));
  }
  // cuDNN names sizes in the order NCHW, however the image lies.
  Tensor Image(int64_t rows, int64_t channels, int64_t height, int64_t width) {
    return Add({rows, channels, height, width}, ImageStrides(channels, height, width));
  }
  void Result(const Tensor& tensor) {
    tensor->set_output(true).set_data_type(TypeOf(dtype_)).set_uid(next_++);
  }
  void Result(const Tensor& tensor, int64_t rows, int64_t channels, int64_t height, int64_t width) {
    tensor->set_dim({rows, channels, height, width})
        .set_stride(ImageStrides(channels, height, width));
    Result(tensor);
  }
  Tensor Sum(const Tensor& a, const Tensor& b) {
    return graph->pointwise(a, b,
                            fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }

  const std::shared_ptr<Graph> graph;

 private:
  static std::vector<int64_t> ImageStrides(int64_t channels, int64_t height, int64_t width) {
    return {height * width * channels, 1, width * channels, channels};
  }

  const DType dtype_;
  int64_t next_ = 1;
};

std::shared_ptr<Graph> GraphOf(const ConvolutionShape& s) {
  Drawing drawing(s.dtype);
  const Tensor x = drawing.Image(s.rows, s.channels, s.height, s.width);
  const Tensor weight = drawing.Image(s.out, s.channels, s.kernel_height, s.kernel_width);
  const std::vector<int64_t> padding = {s.padding_height, s.padding_width};
  Tensor y = drawing.graph->conv_fprop(x, weight,
                                       fe::graph::Conv_fprop_attributes()
                                           .set_padding(padding)
                                           .set_stride({s.stride, s.stride})
                                           .set_dilation({1, 1}));
  if (s.has_bias) y = drawing.Sum(y, drawing.Image(1, s.out, 1, 1));
  const int64_t height = s.result_height(), width = s.result_width();
  if (s.has_residual) y = drawing.Sum(y, drawing.Image(s.rows, s.out, height, width));
  drawing.Result(y, s.rows, s.out, height, width);
  return drawing.graph;
}

// As the library has it: what goes back from a convolution's result to its image.
std::shared_ptr<Graph> GraphOf(const TransposedConvolutionShape& s) {
  Drawing drawing(s.dtype);
  const Tensor x = drawing.Image(s.rows, s.channels, s.height, s.width);
  const Tensor weight = drawing.Image(s.channels, s.out, 4, 4);
  const Tensor y = drawing.graph->conv_dgrad(
      x, weight,
      fe::graph::Conv_dgrad_attributes().set_padding({1, 1}).set_stride({2, 2}).set_dilation(
          {1, 1}));
  drawing.Result(y, s.rows, s.out, 2 * s.height, 2 * s.width);
  return drawing.graph;
}

std::shared_ptr<Graph> GraphOf(const AttentionShape& s) {
  Drawing drawing(s.dtype);
  const auto heads = [&](const AttentionShape::Operand& operand, int64_t tokens) {
    return drawing.Add({s.rows, s.heads, tokens, s.size}, {operand.row, s.size, operand.token, 1});
  };
  const Tensor query = heads(s.query, s.queries), key = heads(s.key, s.keys),
               value = heads(s.value, s.keys);
  auto [result, stats] = drawing.graph->sdpa(query, key, value,
                                             fe::graph::SDPA_attributes()
                                                 .set_generate_stats(false)
                                                 .set_causal_mask(s.causal)
                                                 .set_attn_scale(s.scale));
  const int64_t token = s.heads * s.size;
  result->set_dim({s.rows, s.heads, s.queries, s.size})
      .set_stride({s.queries * token, s.size, token, 1});
  drawing.Result(result);
  return drawing.graph;
}

// The library's state, which has one stream at a time.
struct Handle {
  explicit Handle(cudnnHandle_t library) : library(library) {}
  ~Handle() { fe::detail::destroy_handle(library); }
  Handle(const Handle&) = delete;

  absl::Mutex mutex;
  const cudnnHandle_t library ABSL_PT_GUARDED_BY(mutex);
};

// The library's states that plans are built with, a thread's own as long as it builds. Thread-safe.
class Builders {
 public:
  Builders() = default;
  ~Builders() {
    for (cudnnHandle_t library : idle_) fe::detail::destroy_handle(library);
  }
  Builders(const Builders&) = delete;

  // Returns the result of `build`, a status or StatusOr, for a state of the selected GPU.
  template <typename Build>
  auto With(const Build& build) -> decltype(build(cudnnHandle_t())) {
    ASSIGN_OR_RETURN(cudnnHandle_t const library, Take());
    const absl::Cleanup put_back = [&] { PutBack(library); };
    return build(library);
  }

 private:
  absl::StatusOr<cudnnHandle_t> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!idle_.empty()) {
        cudnnHandle_t library = idle_.back();
        idle_.pop_back();
        return library;
      }
    }
    cudnnHandle_t library = nullptr;
    const cudnnStatus_t status = fe::detail::create_handle(&library);
    if (status == CUDNN_STATUS_SUCCESS) return library;
    return device::cuda::FailureOf(
        absl::StrCat("cuDNN: a handle: status ", static_cast<int>(status)));
  }
  void PutBack(cudnnHandle_t library) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    idle_.push_back(library);
  }

  absl::Mutex mutex_;
  std::vector<cudnnHandle_t> idle_ ABSL_GUARDED_BY(mutex_);
};

class FrontendPlan : public CudnnPlan {
 public:
  FrontendPlan(Handle& handle, std::shared_ptr<Graph> graph, int64_t workspace_bytes)
      : handle_(handle), graph_(std::move(graph)), workspace_bytes_(workspace_bytes) {}

  size_t workspace_bytes() const override { return static_cast<size_t>(workspace_bytes_); }

  absl::Status Enqueue(absl::Span<void* const> addresses, void* workspace,
                       cudaStream_t stream) const override {
    return Caught([&]() -> absl::Status {
      std::unordered_map<int64_t, void*> pack;
      for (size_t i = 0; i < addresses.size(); ++i)
        pack[static_cast<int64_t>(i) + 1] = addresses[i];
      absl::MutexLock lock(&handle_.mutex);
      if (fe::detail::set_stream(handle_.library, stream) != CUDNN_STATUS_SUCCESS) {
        return device::cuda::FailureOf("cuDNN: selecting a stream");
      }
      return ToStatus(graph_->execute(handle_.library, pack, workspace), "running a plan");
    });
  }

 private:
  Handle& handle_;
  const std::shared_ptr<Graph> graph_;
  const int64_t workspace_bytes_;
};

constexpr int64_t kMostWorkspaceBytes = int64_t{256} << 20;
// A plan as bytes is its shape's key, this, and what the library says of itself.
constexpr char kBehindKey[] = "\n";
constexpr char kPlanField[] = "cudnn_backend_data";
// Number of plans beyond which unused ones are forgotten.
constexpr size_t kManyPlans = 512;
constexpr size_t kNewest = 32;

class FrontendCudnn : public Cudnn {
 public:
  FrontendCudnn(cudnnHandle_t running, std::function<void()> on_restore)
      : running_(running), on_restore_(std::move(on_restore)) {}

  size_t version() const override { return fe::detail::get_backend_version(); }

  absl::StatusOr<Choice> Choose(const ConvolutionShape& shape, Trial trial) override {
    return ChooseRight(shape, trial);
  }
  absl::StatusOr<Choice> Choose(const TransposedConvolutionShape& shape, Trial trial) override {
    return ChooseRight(shape, trial);
  }
  absl::StatusOr<Choice> Choose(const AttentionShape& shape, Trial trial) override {
    return ChooseRight(shape, trial);
  }

  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Load(const std::string& key,
                                                        absl::string_view plan) override {
    const std::shared_ptr<Shared> shared = Find(std::string(plan));
    std::shared_ptr<const CudnnPlan> result;
    {
      absl::MutexLock lock(&shared->mutex);
      result = shared->plan.lock();
      if (result != nullptr) return result;
      ASSIGN_OR_RETURN(result, Caught([&] { return Read(key, plan); }));
      shared->plan = result;
    }
    NoteRead(result);  // without that lock: DropUnused takes it behind the other
    return result;
  }

 private:
  // The plan that the library recommends, but for those of these names; adds its own.
  static absl::StatusOr<std::string> Build(cudnnHandle_t library, const std::string& key,
                                           Graph& graph, std::vector<std::string>& names) {
    RETURN_IF_ERROR(ToStatus(graph.validate(), key));
    RETURN_IF_ERROR(ToStatus(graph.build_operation_graph(library), key));
    RETURN_IF_ERROR(
        ToStatus(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), key));
    graph.deselect_engines(names);
    graph.deselect_workspace_greater_than(kMostWorkspaceBytes);
    // Results are deterministic, and sums are in f32.
    graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC,
                                  fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
                                  fe::NumericalNote_t::DOWN_CONVERT_INPUTS});
    RETURN_IF_ERROR(ToStatus(graph.check_support(), key));
    RETURN_IF_ERROR(ToStatus(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), key));
    RETURN_IF_ERROR(ToStatus(graph.get_plan_name(names.emplace_back()), key));
    std::vector<uint8_t> bytes;
    RETURN_IF_ERROR(ToStatus(graph.serialize(bytes), key));
    return absl::StrCat(key, kBehindKey, std::string(bytes.begin(), bytes.end()));
  }

  template <typename Shape>
  absl::StatusOr<Choice> ChooseRight(const Shape& shape, Trial trial) {
    constexpr int kMostPlans = 8;
    const std::string key = shape.Key();
    std::vector<std::string> names;
    absl::Status status;
    for (int i = 0; i < kMostPlans; ++i) {
      ASSIGN_OR_RETURN(std::string plan, builders_.With([&](cudnnHandle_t library) {
        return Caught([&] { return Build(library, key, *GraphOf(shape), names); });
      }));
      ASSIGN_OR_RETURN(const std::shared_ptr<const CudnnPlan> read, Load(key, plan));
      status = trial(*read);
      if (status.ok() || absl::IsResourceExhausted(status)) {
        return Choice{std::move(plan), KernelWork::kPlanBuilt, /*lasting=*/status.ok()};
      }
      if (!absl::IsInternal(status) || device::IsFault(status)) return status;
    }
    return absl::UnimplementedError(absl::StrCat("cuDNN's plans are wrong: ", status.message()));
  }

  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Read(const std::string& key,
                                                        absl::string_view plan) {
    if (!absl::ConsumePrefix(&plan, absl::StrCat(key, kBehindKey))) {
      return absl::InvalidArgumentError(absl::StrCat("a plan of cuDNN that is none for a ", key));
    }
    const json read = json::from_ubjson(plan.begin(), plan.end(), /*strict=*/true,
                                        /*allow_exceptions=*/false);
    if (!read.is_object() || !read.contains(kPlanField)) {
      return absl::InvalidArgumentError("a plan of cuDNN that is damaged");
    }
    auto graph = std::make_shared<Graph>();
    // Its own warm-up captures, and cannot beside a session that is being captured.
    RETURN_IF_ERROR(builders_.With([&](cudnnHandle_t library) {
      return ToStatus(graph->deserialize(library, read, /*enforce_precompiled=*/false,
                                         /*run_warmup=*/false),
                      "reading a plan");
    }));
    int64_t workspace_bytes = 0;
    RETURN_IF_ERROR(ToStatus(graph->get_workspace_size(workspace_bytes), "a plan's workspace"));
    if (workspace_bytes < 0 || workspace_bytes > kMostWorkspaceBytes) {
      return absl::InvalidArgumentError("cuDNN: a plan that wants too much workspace");
    }
    if (on_restore_) on_restore_();
    return std::make_shared<FrontendPlan>(running_, std::move(graph), workspace_bytes);
  }

  // A plan that is being read, or has users.
  struct Shared {
    absl::Mutex mutex;  // never held where mutex_ is taken
    std::weak_ptr<const CudnnPlan> plan ABSL_GUARDED_BY(mutex);
  };

  std::shared_ptr<Shared> Find(const std::string& plan) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (plans_.size() >= kManyPlans && !plans_.contains(plan)) DropUnused();
    std::shared_ptr<Shared>& shared = plans_[plan];
    if (shared == nullptr) shared = std::make_shared<Shared>();
    return shared;
  }

  void DropUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(plans_, [](const auto& entry) {
      const std::shared_ptr<Shared>& shared = entry.second;
      if (shared.use_count() > 1) return false;
      absl::MutexLock lock(&shared->mutex);
      return shared->plan.expired();
    });
  }

  void NoteRead(std::shared_ptr<const CudnnPlan> plan) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    newest_.push_back(std::move(plan));
    if (newest_.size() > kNewest) newest_.pop_front();
  }

  Builders builders_;
  Handle running_;
  const std::function<void()> on_restore_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Shared>> plans_ ABSL_GUARDED_BY(mutex_);  // by their bytes
  // Plans chosen lately, which are about to be loaded.
  std::deque<std::shared_ptr<const CudnnPlan>> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Open(std::function<void()> on_restore) {
  ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libcudnn.so.9"));
  fe::cudnn_dlhandle = library.handle();
  return Caught([&]() -> absl::StatusOr<std::unique_ptr<Cudnn>> {
    cudnnHandle_t running = nullptr;
    const cudnnStatus_t status = fe::detail::create_handle(&running);
    if (status != CUDNN_STATUS_SUCCESS) {
      return absl::FailedPreconditionError(
          absl::StrCat("cuDNN does not start: status ", static_cast<int>(status)));
    }
    return std::make_unique<FrontendCudnn>(running, std::move(on_restore));
  });
}

}  // namespace latentd::backends::cuda
